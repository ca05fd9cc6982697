package schemas

import (
	"slices"
	"strings"
)

// KeyFields are the fields that tell records apart by their names, and LabelFields
// those that often do, as they are spelled. The usual ones come first.
func (v *Vocabulary) KeyFields() []string { return v.file.Fields.Keys }

// LabelFields is described with [Vocabulary.KeyFields].
func (v *Vocabulary) LabelFields() []string { return v.file.Fields.Labels }

// TimeField reports whether a field of this name holds times.
func (v *Vocabulary) TimeField(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(v.file.Fields.Times, func(end string) bool { return strings.HasSuffix(name, end) })
}

// ChangeField reports whether a field of this name, if it holds times, holds that of
// the last change.
func (v *Vocabulary) ChangeField(name string) bool {
	return containsAny(withoutExchange(name), v.file.Fields.Changed)
}

// CreationField reports whether a field of this name, if it holds times, holds that of
// the creation.
func (v *Vocabulary) CreationField(name string) bool {
	return containsAny(withoutExchange(name), v.file.Fields.Created) && !v.ChangeField(name)
}

// MoneyField reports whether a field of this name holds amounts of money.
func (v *Vocabulary) MoneyField(name string) bool { return beginsWithAny(name, v.file.Fields.Money) }

// Sorts are the queries that ask for an order, with %s for the name of the field, the
// usual ones first.
func (v *Vocabulary) Sorts() []string { return v.file.Sorts }

func withoutExchange(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "exchange", "")
}
