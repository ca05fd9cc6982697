package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Pos is a position in the file; lines and columns count from 1. The zero Pos is unknown.
type Pos struct{ Line, Col int }

// Fault is one error in a configuration. Its message may quote the text ${NAME} or ${file:PATH}, but never the value
// that replaces it. // Invariant 5
type Fault struct {
	File string
	Pos
	Message string
	cause   error // [ErrUnset] or nil
}

// ErrUnset reports that the configuration names an environment variable that is not set.
var ErrUnset = errors.New("environment variable is not set")

// Unwrap returns the cause, for errors.Is.
func (f Fault) Unwrap() error { return f.cause }

// Error returns "file:line:column: message". It leaves out the parts that are unknown.
func (f Fault) Error() string {
	switch {
	case f.File == "":
		return f.Message
	case f.Pos == (Pos{}):
		return f.File + ": " + f.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Col, f.Message)
}

const maxFaults = 100 // greatest number of faults that are reported

// Faults has all errors in a configuration, in the order of the file.
type Faults []Fault

// Error returns one fault per line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults, for errors.As.
func (fs Faults) Unwrap() []error {
	errs := make([]error, len(fs))
	for i, f := range fs {
		errs[i] = f
	}
	return errs
}

func (fs Faults) sorted() Faults {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
	fs = slices.Compact(fs)
	if more := len(fs) - maxFaults; more > 0 {
		fs = append(fs[:maxFaults:maxFaults], Fault{File: fs[0].File, Message: fmt.Sprintf("and %d more faults", more)})
	}
	return fs
}

// posOf returns the position of a value. For a block mapping, the parser reports the position of the first colon, but
// posOf returns the position of the first key.
func posOf(n ast.Node) Pos {
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return posOf(m.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return posOf(m.Key)
	}
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return Pos{}
	}
	p := n.GetToken().Position
	return Pos{Line: p.Line, Col: p.Column}
}

// DidYouMean returns "; did you mean …?" with the most similar of the known words, or "" if none is similar.
func DidYouMean(word string, known []string) string {
	best, least := "", max(1, len(word)/3)+1
	for _, k := range known {
		if d := distance(word, k); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance returns how many letters must be inserted, deleted, replaced or swapped with a neighbor to turn one text
// into the other. Case does not matter.
func distance(a, b string) int {
	s, t := []rune(strings.ToLower(a)), []rune(strings.ToLower(b))
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		row[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(t)]
}

func suggestion(word string, known []string) string {
	if s := DidYouMean(word, known); s != "" {
		return s
	}
	if len(known) == 0 || len(known) > 16 {
		return ""
	}
	return "; want " + oneOf(known)
}

func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
