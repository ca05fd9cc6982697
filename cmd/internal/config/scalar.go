package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// scalar is a single value. Its field `raw` has the text in the file. Its field `value` has the same text, with each
// ${…} replaced. Messages quote only the text in the file, because the replaced text may contain a secret.
type scalar struct {
	raw, value string
	at         Pos
}

// scalar returns a single value. A number keeps its text in the file, so that 0644 stays 0644.
func (v value) scalar() (scalar, bool) {
	s := scalar{at: v.pos()}
	switch n := v.resolve().(type) {
	case *ast.StringNode:
		s.raw = n.Value
	case *ast.LiteralNode:
		s.raw = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		s.raw = n.GetToken().Value
	default:
		v.wrong("a single value")
		return s, false
	}
	v.observe(sighting{single: true})
	filled, ok := v.fill(s.raw)
	s.value = filled
	return s, ok
}

func (v value) text() (scalar, bool) {
	s, ok := v.scalar()
	if ok && strings.TrimSpace(s.value) == "" {
		v.fault(s.at, "%s is empty", v.what)
		return s, false
	}
	return s, ok
}

func (v value) choice(words ...string) string {
	s, ok := v.text()
	if !ok {
		return ""
	}
	v.observe(sighting{words: words})
	if slices.Contains(words, s.value) {
		return s.value
	}
	v.fault(s.at, "%s %q is unknown%s", v.what, s.raw, suggestion(s.raw, words))
	return ""
}

func (v value) boolean() bool { return v.choice("true", "false") == "true" }

// converted reads a text and converts it. If the text cannot be converted, a fault says what is wanted.
func converted[T any](v value, want string, convert func(string) (T, bool)) (result T) {
	s, ok := v.text()
	if !ok {
		return result
	}
	t, ok := convert(s.value)
	if !ok {
		v.fault(s.at, "%s %q: want %s", v.what, s.raw, want)
		return result
	}
	return t
}

// number returns a function that stores a whole number. The number must be between two limits.
func number(to *int, low, high int) func(value) {
	return func(v value) {
		want := fmt.Sprintf("a whole number from %d to %d", low, high)
		if low == high {
			want = strconv.Itoa(low)
		}
		*to = converted(v, want, func(s string) (int, bool) {
			v.observe(sighting{number: true, low: low, high: high})
			i, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
			return i, err == nil && low <= i && i <= high
		})
	}
}

// duration returns a function that stores a duration. The duration must be between two limits. The caller passes a
// description of these limits for messages.
func duration(to *time.Duration, least, most time.Duration, want string) func(value) {
	return func(v value) {
		*to = converted(v, want, func(s string) (time.Duration, bool) {
			d, err := time.ParseDuration(strings.TrimSpace(s))
			return d, err == nil && least <= d && d <= most
		})
	}
}

// period reads a duration that may be given in days.
func period(v value) time.Duration {
	return converted(v, "a length of time, such as 15m, 24h or 7d", func(s string) (time.Duration, bool) {
		days := time.Duration(1)
		if len(s) > 1 && s[len(s)-1] == 'd' {
			s, days = s[:len(s)-1]+"h", 24
		}
		d, err := time.ParseDuration(s)
		return d * days, err == nil && 0 < d && d <= 3650*24*time.Hour/days //nolint:durationcheck // days is a plain number: 1, or the hours of a day
	})
}

// notEmpty reports a list without items. It reports nothing if the file has other faults, because one of them may be
// the reason why the list is empty.
func (v value) notEmpty(items int) {
	if items == 0 && len(v.r.faults) == 0 {
		v.fault(v.pos(), "%s is empty", v.what)
	}
}

func (v value) texts() []scalar {
	var all []scalar
	for _, item := range v.list() {
		if s, ok := item.text(); ok {
			all = append(all, s)
		}
	}
	return all
}

func (v value) words() []string {
	var all []string
	for _, s := range v.texts() {
		all = append(all, s.value)
	}
	return all
}
