package schemas

import "slices"

// Parameters returns the request parameters of a family, the usual ones first.
func (v *Vocabulary) Parameters(family string) []string { return v.file.Parameters[family] }

// Parameter reports whether a request parameter belongs to a family, in any spelling.
func (v *Vocabulary) Parameter(family, name string) bool {
	return v.parameters[family][FoldName(name)]
}

// Spellings returns the parameters of a family with the same folded name, the usual ones first.
func (v *Vocabulary) Spellings(family, name string) []string {
	word := FoldName(name)
	return slices.DeleteFunc(slices.Clone(v.file.Parameters[family]), func(p string) bool { return FoldName(p) != word })
}

// TokenParameters returns the request parameters that may send a token, by the name of the token's member in the
// answer. It is for APIs that use two names: a token endCursor is sent as after or cursor.
func (v *Vocabulary) TokenParameters(name string) []string {
	return v.file.TokenParameters[FoldName(name)]
}

// PageObject reports whether a token in an object with this name may also be sent as page[cursor].
func (v *Vocabulary) PageObject(name string) bool {
	return slices.Contains(v.file.PageObjects, FoldName(name))
}
