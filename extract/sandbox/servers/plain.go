package servers

import "slices"

// Way returns the kind of paging, or "link" if answers hold the address of the next page.
func (s Spec) Way() string {
	for _, g := range s.Signals {
		switch g.Says {
		case "next url", "next links", "next object", "next header":
			return "link"
		}
	}
	return s.Paging.Kind
}

// Plain reports whether a reader must be able to read the whole list, although it knows only the list's path. In a
// plain list, nothing fails or moves, and no signal is wrong. The answers state how the list is paged, or a reader can
// find this out with the usual parameter names.
func (s Spec) Plain() bool {
	r := s.Records
	switch {
	case len(s.Faults) > 0, len(s.Moves) > 0, s.Paging.Kind == KindCap, s.Paging.Deep > 0:
		return false
	case r.Twice > 0, r.Nulls > 0, r.Hidden > 0, r.Odd == OddTab, r.Key == "", r.Order == OrderTies, s.Edits.Rekey > 0:
		return false
	case s.Paging.Kind == KindToken && !slices.Contains(usualTokens, s.Paging.Param) && s.Way() != "link":
		return false // a reader cannot find the token's parameter
	case r.Count == 0, r.Count <= s.Edits.Delete:
		return false // an empty list does not show how it is paged
	}
	if slices.ContainsFunc(s.Signals, func(g Signal) bool { return falseSignals[g.Says] || g.End == "self" }) {
		return false
	}
	return s.said() || s.Unknown == "" && s.Records.Count%s.Size.Default != 0
}

var usualTokens = []string{"cursor", "after", "page_token", "pageToken", "next_token", "starting_after", "start_cursor", "continuation_token", "marker"}

var falseSignals = map[string]bool{"total here": true, "total rounded": true, "total low": true, "page stuck": true}

func (s Spec) said() bool {
	return slices.ContainsFunc(s.Signals, func(g Signal) bool {
		switch g.Says {
		case "total", "range", "pages", "next", "next url", "next links", "next object", "next header":
			return true
		}
		return false
	})
}

// Drifts reports whether the list is paged by opaque tokens, states no total, and changes while it is read. Only a
// second reading shows such a change.
func (s Spec) Drifts() bool {
	said := slices.ContainsFunc(s.Signals, func(g Signal) bool { return g.Says == "total" })
	return len(s.Moves) > 0 && s.Paging.Kind == KindToken && s.Paging.Form != "id" && !said
}
