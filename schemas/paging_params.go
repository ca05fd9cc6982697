package schemas

import "slices"

// Parameters are the request parameters of one family, the usual ones first.
func (v *Vocabulary) Parameters(family string) []string { return v.file.Parameters[family] }

// Parameter reports whether a request parameter of this name belongs to a family,
// however it is spelled.
func (v *Vocabulary) Parameter(family, name string) bool {
	return v.parameters[family][FoldName(name)]
}

// Spellings are the parameters of a family whose folded name is that of name, the
// usual ones first.
func (v *Vocabulary) Spellings(family, name string) []string {
	word := FoldName(name)
	return slices.DeleteFunc(slices.Clone(v.file.Parameters[family]), func(p string) bool { return FoldName(p) != word })
}

// TokenParameters are the parameters of a token that has another name in the request
// than the given one in the answer.
func (v *Vocabulary) TokenParameters(name string) []string {
	return v.file.TokenParameters[FoldName(name)]
}

// PageObject reports whether a token in an object of this name is sent as page[cursor],
// too.
func (v *Vocabulary) PageObject(name string) bool {
	return slices.Contains(v.file.PageObjects, FoldName(name))
}
