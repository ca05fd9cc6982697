package config

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// badPattern returns the error in a name or pattern of streams. It returns "" if there is none.
func badPattern(text string, all []Stream) string {
	name := strings.TrimPrefix(text, "!")
	if strings.ContainsAny(name, `?[]\`) {
		return fmt.Sprintf("%q: only * is a wildcard", text)
	}
	i := slices.IndexFunc(all, func(s Stream) bool { return s.Class.Readable() && matches(name, s.Name) })
	if i >= 0 {
		return ""
	}
	if w := slices.IndexFunc(all, func(s Stream) bool { return s.Name == name }); w >= 0 {
		return fmt.Sprintf("%s is a %s endpoint and can never be read", name, all[w].Class)
	}
	advice := DidYouMean(name, readable(all))
	if advice == "" {
		advice = "; `penstock streams` lists them"
	}
	return fmt.Sprintf("no stream %q%s", name, advice)
}

func readable(all []Stream) []string {
	var ns []string
	for _, s := range all {
		if s.Class.Readable() {
			ns = append(ns, s.Name)
		}
	}
	return ns
}

// chosenSources returns the names that the patterns select. If several patterns match a name, the last of them decides.
// If all patterns are exclusions, such as ["!test"], the result has all other names.
func chosenSources(names []string, patterns []Ref) []Ref {
	if !slices.ContainsFunc(patterns, func(r Ref) bool { return !strings.HasPrefix(r.Text, "!") }) && patterns != nil {
		patterns = append([]Ref{{At: patterns[0].At, Text: "*"}}, patterns...)
	}
	var chosen []Ref
	for _, name := range names {
		var by *Ref
		for i := range patterns {
			text, not := strings.CutPrefix(patterns[i].Text, "!")
			switch {
			case !matches(text, name):
			case not:
				by = nil
			default:
				by = &patterns[i]
			}
		}
		if by != nil {
			chosen = append(chosen, Ref{by.At, name})
		}
	}
	return chosen
}

func joinFew(all []string) string {
	if len(all) <= 3 {
		return strings.Join(all, ", ")
	}
	return strings.Join(all[:3], ", ") + " and others"
}
