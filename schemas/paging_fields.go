package schemas

import (
	"slices"
	"strings"
)

// TimeField reports whether a field with this name contains times.
func (v *Vocabulary) TimeField(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(v.Fields.Times, func(end string) bool { return strings.HasSuffix(name, end) })
}

// ChangeField reports whether a time field with this name is the time of the last change.
func (v *Vocabulary) ChangeField(name string) bool {
	return containsAny(withoutExchange(name), v.Fields.Changed)
}

// CreationField reports whether a time field with this name is the time of creation.
func (v *Vocabulary) CreationField(name string) bool {
	return containsAny(withoutExchange(name), v.Fields.Created) && !v.ChangeField(name)
}

// MoneyField reports whether a field with this name contains amounts of money.
func (v *Vocabulary) MoneyField(name string) bool { return beginsWithAny(name, v.Fields.Money) }

// withoutExchange removes "exchange" from a name. That word contains "chang", but says nothing about a change.
func withoutExchange(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "exchange", "")
}
