package imports

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Selection selects operations of a description. If it is empty, it selects all operations.
type Selection struct {
	Tags  []string // an operation must be in one of these groups
	Paths []string // and its path must match one of these patterns, in which * stands for any text
}

// Empty reports whether the selection selects all operations.
func (s Selection) Empty() bool { return len(s.Tags)+len(s.Paths) == 0 }

// selects reports whether the selection selects an operation.
func (s Selection) selects(o Operation) bool {
	tagged := func(tag string) bool { return strings.EqualFold(tag, o.Tag) }
	below := func(pattern string) bool { return matches(pattern, o.Path) }
	return (len(s.Tags) == 0 || slices.ContainsFunc(s.Tags, tagged)) && (len(s.Paths) == 0 || slices.ContainsFunc(s.Paths, below))
}

func matches(pattern, path string) bool {
	quoted := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`)
	ok, err := regexp.MatchString("^"+quoted+"$", path)
	return ok && err == nil
}

// mostTags is how many groups a hint names.
const mostTags = 20

// Tags lists the groups of a description with their numbers of GET operations, the largest first. It returns "" if
// there are no groups.
func (d *Description) Tags() string {
	count := map[string]int{}
	for _, o := range d.Operations {
		if o.Tag != "" && reads(o.Method) {
			count[o.Tag]++
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	words := make([]string, 0, mostTags)
	for _, tag := range all[:min(len(all), mostTags)] {
		words = append(words, fmt.Sprintf("%s (%d)", printed(tag), count[tag]))
	}
	if len(all) > mostTags {
		words = append(words, "…")
	}
	return strings.Join(words, ", ")
}

// manyReads is the number of GET operations from which each group of a description gets a module of its own.
const manyReads = 100

// modules returns the module for each group of a large description; nil for a small description, or for one without
// groups.
func (d *Description) modules(title string) map[string]string {
	n, of := 0, map[string]string{}
	for _, o := range d.Operations {
		if !reads(o.Method) {
			continue
		}
		n++
		if name := snake(o.Tag); name != "" && name != title {
			of[o.Tag] = fitModule(title + "_" + name)
		}
	}
	if n < manyReads || len(of) < 2 {
		return nil
	}
	return of
}

// maxModule is the maximum length of a module's name.
const maxModule = 24

// fitModule shortens the name of a module at the end of a word.
func fitModule(name string) string {
	if len(name) <= maxModule {
		return name
	}
	name = name[:maxModule+1]
	if i := strings.LastIndexByte(name, '_'); i > 0 {
		return name[:i]
	}
	return name[:maxModule]
}
