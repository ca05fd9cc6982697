package extract

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

// timeFields returns the fields that hold times: first times of changes, then times of creation, then others.
func timeFields(rows []row) []string {
	var out []string
	for _, name := range fields(rows) {
		if unitOf(rows, name) != "" {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		if d := timeRank(a) - timeRank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return out
}

func timeRank(name string) int {
	switch words := schemas.Paging(); {
	case words.ChangeField(name):
		return 0
	case words.CreationField(name):
		return 1
	}
	return 2
}

func unitOf(rows []row, name string) string {
	named := schemas.Paging().TimeField(name)
	unit := ""
	for _, r := range rows {
		v, ok := r[name]
		if !ok || v == "null" || v == `""` {
			continue
		}
		u := unitOfValue(v, named)
		if u == "" || unit != "" && u != unit {
			return ""
		}
		unit = u
	}
	return unit
}

// unitOfValue returns the unit or format of a time, or "" if the value is no time. named says that the field is named
// like a time. An integer is a time only in such a field. Its size shows the unit.
func unitOfValue(v string, named bool) string {
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

func moment(v, unit string) (time.Time, bool) {
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

// units notes the formats of times. It also notes integer amounts that may be in minor units, such as cents, and
// decimals in quotes. It changes no value.
func (n *negotiation) units() {
	f := Fact{About: FactUnits, From: Learned}
	var values []string
	for _, name := range timeFields(n.rows) {
		u := unitOf(n.rows, name)
		if n.out.Units == nil {
			n.out.Units = map[string]string{}
		}
		n.out.Units[name] = u
		values = append(values, name+": "+u)
		if newest, ok := newestOf(n.rows, name, u); ok && (u == UnitSeconds || u == UnitMillis) {
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s as %s: the latest is %s; the server's clock shows %s", name, u, newest.Format(time.DateTime), n.now.UTC().Format(time.DateTime)))
		}
	}
	if names := fields(n.rows); slices.Contains(names, "currency") {
		for _, name := range names {
			if schemas.Paging().MoneyField(name) && whole(n.rows, name) {
				f.Evidence = append(f.Evidence, name+" is an integer in every record with a currency: it may be in minor units, and is stored unchanged")
			}
		}
	}
	for _, name := range fields(n.rows) {
		if quotedDecimals(n.rows, name) {
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s is a decimal in quotes in every record; use `columns: {%s: decimal}` for a decimal column", name, schemas.Column(name)))
		}
	}
	f.Value = strings.Join(values, ", ")
	if f.Value != "" || f.Evidence != nil {
		n.out.Facts = append(n.out.Facts, f)
	}
}

func newestOf(rows []row, name, unit string) (newest time.Time, ok bool) {
	for _, r := range rows {
		if t, is := moment(r[name], unit); is && (!ok || t.After(newest)) {
			newest, ok = t, true
		}
	}
	return newest, ok
}

func quotedDecimals(rows []row, name string) bool {
	n, scale := 0, 0
	for _, r := range rows {
		v, ok := r[name]
		if !ok || v == "null" {
			continue
		}
		text := strings.Trim(v, `"`)
		_, fraction, point := strings.Cut(text, ".")
		if v[0] != '"' || !point || !jsondoc.IsNumber([]byte(text)) || strings.Trim(text, "-.0123456789") != "" || n > 0 && len(fraction) != scale {
			return false
		}
		n, scale = n+1, len(fraction)
	}
	return n >= 3
}

func whole(rows []row, name string) bool {
	n := 0
	for _, r := range rows {
		if v, ok := r[name]; ok && v != "null" {
			if _, err := strconv.ParseInt(v, 10, 64); err != nil {
				return false
			}
			n++
		}
	}
	return n > 0
}
