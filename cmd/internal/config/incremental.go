package config

import (
	"time"

	"github.com/penstock-data/penstock/schemas"
)

func readIncremental(v value) schemas.Incremental {
	var i schemas.Incremental
	if !v.isMapping() {
		i.Auto = v.choice("auto") != ""
		return i
	}
	i.Format = schemas.MomentRFC3339
	v.mapping(fields{
		"field":    text(&i.Field),
		"param":    text(&i.Param),
		"until":    text(&i.Until),
		"format":   choice(&i.Format, schemas.MomentFormats()...),
		"lookback": set(&i.Lookback, period),
		"full":     set(&i.Full, period),
	}, "field")
	if i.Until != "" && i.Param == "" {
		v.fault(v.pos(), "%s has `until` but no `param`; a range needs a beginning", v.what)
	}
	return i
}

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
		r.fault(s.At, "stream %s has both `months` and `incremental`; keep one, or set `months: none`", s.Name)
	}
}
