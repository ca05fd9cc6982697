package config

import (
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/schemas"
)

func (r *reader) incremental(n ast.Node, what string) schemas.Incremental {
	var i schemas.Incremental
	if _, block := r.resolve(n).(ast.MapNode); !block {
		i.Auto = r.choice(n, what, "auto") != ""
		return i
	}
	word := func(to *string, key string) func(ast.Node) {
		return func(n ast.Node) {
			if s, ok := r.text(n, what+" "+key); ok {
				*to = s.value
			}
		}
	}
	i.Format = schemas.MomentRFC3339
	if r.mapping(n, what, fields{
		"field":    word(&i.Field, "field"),
		"param":    word(&i.Param, "param"),
		"until":    word(&i.Until, "until"),
		"format":   func(n ast.Node) { i.Format = r.choice(n, what+" format", schemas.MomentFormats()...) },
		"lookback": func(n ast.Node) { i.Lookback = r.duration(n, what+" lookback") },
		"full":     func(n ast.Node) { i.Full = r.duration(n, what+" full") },
	}) {
		r.require(n, what, "field")
	}
	if i.Until != "" && i.Param == "" {
		r.fault(posOf(n), "%s has until but no param; a range needs a beginning", what)
	}
	return i
}

func (r *reader) duration(n ast.Node, what string) time.Duration {
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	text := s.value
	days := time.Duration(1)
	if len(text) > 1 && text[len(text)-1] == 'd' {
		text, days = text[:len(text)-1]+"h", 24
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > 3650*24*time.Hour/days {
		r.fault(s.at, "%s %q: want a length of time, such as 15m, 24h or 7d", what, s.raw)
		return 0
	}
	return d * days //nolint:durationcheck // days is a plain number: 1, or the hours of a day
}
