package schemas

import "slices"

// Pagers returns the types of paging, as they are named in the configuration.
func (v *Vocabulary) Pagers() []string {
	all := []string{"none"}
	for _, p := range v.PagerTypes {
		all = append(all, p.Type)
	}
	return all
}

// Parameters returns the request parameters of a family, the usual ones first.
func (v *Vocabulary) Parameters(family string) []string { return v.Families[family] }

// Parameter reports whether a request parameter belongs to a family, in any spelling.
func (v *Vocabulary) Parameter(family, name string) bool {
	return v.parameters[family][FoldName(name)]
}

// Spellings returns the parameters of a family whose folded name is that of name, the usual ones first.
func (v *Vocabulary) Spellings(family, name string) []string {
	word := FoldName(name)
	return slices.DeleteFunc(slices.Clone(v.Families[family]), func(p string) bool { return FoldName(p) != word })
}

// TokenParameters returns the request parameters that may send a token. The name is that of the token in the answer.
// Some APIs use two names: the token endCursor is sent as after or cursor.
func (v *Vocabulary) TokenParameters(name string) []string {
	return v.SentTokens[FoldName(name)]
}
