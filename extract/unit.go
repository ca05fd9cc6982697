package extract

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// units notes the formats of times. It also notes integer amounts that may be in minor units, such as cents, and
// decimals in quotes. It changes no value.
func (n *negotiation) units() {
	f := Fact{About: FactUnits, From: Learned}
	var values []string
	for _, name := range records.TimeFields(n.rows) {
		u := records.UnitOf(n.rows, name)
		if n.out.Units == nil {
			n.out.Units = map[string]string{}
		}
		n.out.Units[name] = u
		values = append(values, name+": "+u)
		if newest, ok := newestOf(n.rows, name, u); ok && (u == records.UnitSeconds || u == records.UnitMillis) {
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s as %s: the latest is %s; the server's clock shows %s", name, u, newest.Format(time.DateTime), n.now.UTC().Format(time.DateTime)))
		}
	}
	if names := records.Fields(n.rows); slices.Contains(names, "currency") {
		for _, name := range names {
			if schemas.Paging().MoneyField(name) && whole(n.rows, name) {
				f.Evidence = append(f.Evidence, name+" is an integer in every record with a currency: it may be in minor units, and is stored unchanged")
			}
		}
	}
	for _, name := range records.Fields(n.rows) {
		if quotedDecimals(n.rows, name) {
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s is a decimal in quotes in every record; use `columns: {%s: decimal}` for a decimal column", name, schemas.Column(name)))
		}
	}
	f.Value = strings.Join(values, ", ")
	if f.Value != "" || f.Evidence != nil {
		n.out.Facts = append(n.out.Facts, f)
	}
}

func newestOf(rows []records.Row, name, unit string) (newest time.Time, ok bool) {
	for _, r := range rows {
		if t, is := records.Moment(r[name], unit); is && (!ok || t.After(newest)) {
			newest, ok = t, true
		}
	}
	return newest, ok
}

func quotedDecimals(rows []records.Row, name string) bool {
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

func whole(rows []records.Row, name string) bool {
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
