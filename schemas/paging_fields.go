package schemas

import (
	"slices"
	"strings"
)

// KeyFields returns the names of fields that identify records, the usual ones first. They are spelled as in answers.
func (v *Vocabulary) KeyFields() []string { return v.file.Fields.Keys }

// LabelFields returns the names of fields that often identify records, the usual ones first. They are spelled as in
// answers.
func (v *Vocabulary) LabelFields() []string { return v.file.Fields.Labels }

// TimeField reports whether a field with this name contains times.
func (v *Vocabulary) TimeField(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(v.file.Fields.Times, func(end string) bool { return strings.HasSuffix(name, end) })
}

// ChangeField reports whether a time field with this name is the time of the last change.
func (v *Vocabulary) ChangeField(name string) bool {
	return containsAny(withoutExchange(name), v.file.Fields.Changed)
}

// CreationField reports whether a time field with this name is the time of creation.
func (v *Vocabulary) CreationField(name string) bool {
	return containsAny(withoutExchange(name), v.file.Fields.Created) && !v.ChangeField(name)
}

// MoneyField reports whether a field with this name contains amounts of money.
func (v *Vocabulary) MoneyField(name string) bool { return beginsWithAny(name, v.file.Fields.Money) }

// Sorts returns the query parameters that request an order, the usual ones first. %s in them stands for the field.
func (v *Vocabulary) Sorts() []string { return v.file.Sorts }

// withoutExchange removes "exchange" from a name. That word contains "chang", but says nothing about a change.
func withoutExchange(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "exchange", "")
}
