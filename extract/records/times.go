package records

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-data/penstock/schemas"
)

// The units and formats of times.
const (
	UnitSeconds  = "unix"     // seconds since 1970
	UnitMillis   = "unix_ms"  // milliseconds since 1970
	UnitRFC3339  = "rfc3339"  // 2026-11-21T10:05:00Z
	UnitDateTime = "datetime" // 2026-11-21 10:05:00, without a zone
	UnitDate     = "date"     // 2026-11-21
)

// TimeFields returns the fields that hold times: first times of changes, then times of creation, then all other times.
func TimeFields(rows []Row) []string {
	var out []string
	for _, name := range Fields(rows) {
		if UnitOf(rows, name) != "" {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		if d := TimeRank(a) - TimeRank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return out
}

// TimeRank is 0 for the name of a time of change, 1 for a time of creation, and 2 for other names.
func TimeRank(name string) int {
	switch words := schemas.Paging(); {
	case words.ChangeField(name):
		return 0
	case words.CreationField(name):
		return 1
	}
	return 2
}

// UnitOf returns the unit or format of a field whose values are all times, or "".
func UnitOf(rows []Row, name string) string {
	named := schemas.Paging().TimeField(name)
	unit := ""
	for _, r := range rows {
		v, ok := r[name]
		if !ok || v == "null" || v == `""` {
			continue
		}
		u := UnitOfValue(v, named)
		if u == "" || unit != "" && u != unit {
			return ""
		}
		unit = u
	}
	return unit
}

// UnitOfValue returns the unit or format of a time, or "" if the value is not a time. The argument `named` says that
// the field has the name of a time. An integer counts as a time only in such a field. The size of the integer shows the
// unit.
func UnitOfValue(v string, named bool) string {
	if v[0] != '"' {
		i, err := strconv.ParseInt(v, 10, 64)
		switch {
		case err != nil || !named:
			return ""
		case i >= 5e8 && i < 1e11:
			return UnitSeconds
		case i >= 5e11 && i < 1e14:
			return UnitMillis
		}
		return ""
	}
	t := strings.Trim(v, `"`)
	for _, f := range []struct{ unit, layout string }{
		{UnitRFC3339, time.RFC3339Nano}, {UnitDateTime, time.DateTime}, {UnitDate, time.DateOnly},
	} {
		if _, err := time.Parse(f.layout, t); err == nil {
			return f.unit
		}
	}
	return ""
}

// Moment parses a time that has the given unit or format.
func Moment(v, unit string) (time.Time, bool) {
	t := strings.Trim(v, `"`)
	layout := map[string]string{UnitRFC3339: time.RFC3339Nano, UnitDateTime: time.DateTime, UnitDate: time.DateOnly}[unit]
	if layout != "" {
		at, err := time.Parse(layout, t)
		return at, err == nil
	}
	i, err := strconv.ParseInt(t, 10, 64)
	if unit == UnitMillis {
		return time.UnixMilli(i).UTC(), err == nil
	}
	return time.Unix(i, 0).UTC(), err == nil
}

// OfChange reports whether a field is named like a time of change.
func OfChange(field string) bool { return TimeRank(field) == 0 }
