package config

import (
	"time"

	"github.com/penstock-data/penstock/schemas"
)

func readMonths(v value) schemas.Months {
	var m schemas.Months
	if !v.isMapping() {
		v.choice("none")
		return m
	}
	v.mapping(fields{
		"month":  text(&m.Month),
		"year":   text(&m.Year),
		"recent": number(&m.Recent, 1, 240),
		"full":   set(&m.Full, period),
		"first":  set(&m.First, month),
	}, "month", "year")
	return m
}

func month(v value) time.Time {
	return converted(v, "a month, such as 2024-01", func(s string) (time.Time, bool) {
		at, err := time.Parse("2006-01", s)
		return at, err == nil
	})
}

func (r *reader) checkMonths(s Stream) {
	switch {
	case !s.Months.Set():
	case s.Parent != "":
		r.fault(s.At, "stream %s has the parent %s, so it cannot be read by months", s.Name, s.Parent)
	case s.Incremental != (schemas.Incremental{}):
		r.fault(s.At, "stream %s has both months and incremental; keep one, or set months: none", s.Name)
	}
}
