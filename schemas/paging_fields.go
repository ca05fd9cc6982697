package schemas

import (
	"slices"
	"strings"
)

// KeyFields returns the names of fields that identify records, and LabelFields of fields that often do. The names
// are as spelled, the usual ones first.
func (v *Vocabulary) KeyFields() []string { return v.file.Fields.Keys }

// LabelFields is described at [Vocabulary.KeyFields].
func (v *Vocabulary) LabelFields() []string { return v.file.Fields.Labels }

// TimeField reports whether a field with this name contains times.
func (v *Vocabulary) TimeField(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(v.file.Fields.Times, func(end string) bool { return strings.HasSuffix(name, end) })
}

// ChangeField reports whether a field of times with this name is the time of the last change.
func (v *Vocabulary) ChangeField(name string) bool {
	return containsAny(withoutExchange(name), v.file.Fields.Changed)
}

// CreationField reports whether a field of times with this name is the time of creation.
func (v *Vocabulary) CreationField(name string) bool {
	return containsAny(withoutExchange(name), v.file.Fields.Created) && !v.ChangeField(name)
}

// MoneyField reports whether a field with this name contains amounts of money.
func (v *Vocabulary) MoneyField(name string) bool { return beginsWithAny(name, v.file.Fields.Money) }

// Sorts returns the query parameters that request an order, with %s for the field, the usual ones first.
func (v *Vocabulary) Sorts() []string { return v.file.Sorts }

// withoutExchange removes "exchange" from a name, because that word contains "chang" but means no change.
func withoutExchange(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "exchange", "")
}
