package browse

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Profile has statistics of a column, from a sample of the table's rows.
type Profile struct {
	Nulls, Distinct int
	Least, Greatest string // "" if all values are null
	Bars            []Bar  // how often values occur: ranges of numbers and times, otherwise the most frequent values
}

// Bar is a part of a histogram.
type Bar struct {
	Label string
	N     int
}

const (
	ranges   = 12 // ranges of a histogram
	frequent = 6  // most frequent values of a histogram
)

// profileOf returns the statistics of the column with the given position.
func profileOf(c Column, rows [][]any, at int) (p Profile) {
	counts, measures := map[string]int{}, map[string]float64{}
	for _, row := range rows {
		if row[at] == nil {
			p.Nulls++
			continue
		}
		counts[Text(row[at])]++
	}
	p.Distinct = len(counts)
	k := kind(c.Type)
	for value := range counts {
		if f, ok := measure(k, value); ok {
			measures[value] = f
		}
	}
	values := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(measures[a], measures[b]), strings.Compare(a, b)) })
	if len(values) == 0 {
		return p
	}
	p.Least, p.Greatest = values[0], values[len(values)-1]
	if (k == kindNumber || k == kindTime) && len(values) > frequent {
		p.Bars = rangesOf(k, values, counts, measures)
		return p
	}
	if len(values) > frequent && len(values)*2 > len(rows)-p.Nulls {
		return p // most values are different, so no value is frequent
	}
	slices.SortStableFunc(values, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	for _, v := range values[:min(len(values), frequent)] {
		p.Bars = append(p.Bars, Bar{v, counts[v]})
	}
	return p
}

// measure returns a value as a number, for the order of values and for ranges.
func measure(kind, value string) (float64, bool) {
	switch kind {
	case kindNumber:
		f, err := strconv.ParseFloat(value, 64)
		return f, err == nil
	case kindTime:
		for _, form := range []string{"2006-01-02 15:04:05.999999Z07:00", time.DateOnly, time.RFC3339Nano, time.DateTime} {
			if at, err := time.Parse(form, value); err == nil {
				return float64(at.UnixMicro()), true
			}
		}
	}
	return 0, false
}

// rangesOf counts values in ranges of the same width. The values are sorted.
func rangesOf(kind string, values []string, counts map[string]int, measures map[string]float64) []Bar {
	least, greatest := measures[values[0]], measures[values[len(values)-1]]
	if greatest <= least {
		return nil
	}
	bars := make([]Bar, ranges)
	for i := range bars {
		bars[i].Label = bound(kind, least+(greatest-least)*float64(i)/ranges) + " to " + bound(kind, least+(greatest-least)*float64(i+1)/ranges)
	}
	for _, v := range values {
		i := int(ranges * (measures[v] - least) / (greatest - least))
		bars[max(0, min(ranges-1, i))].N += counts[v]
	}
	return bars
}

// bound returns the bound of a range as text.
func bound(kind string, f float64) string {
	if kind == kindTime {
		return time.UnixMicro(int64(f)).UTC().Format("2006-01-02 15:04")
	}
	return strconv.FormatFloat(f, 'g', 6, 64)
}
