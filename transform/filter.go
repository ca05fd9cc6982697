package transform

import (
	"bytes"
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/schemas"
)

// condition is one test of a filter with its limits taken apart.
type condition struct {
	schemas.Condition
	in       []limit // or not in
	min, max *limit
}

// limit is a value of the filter as everything it can be compared as.
type limit struct {
	text   string
	number *big.Rat // nil: it spells none
	time   *int64   // microseconds; nil: it is neither a date nor an instant

	units *units // the number in those of the column compared with last
	scale int32
}

func newCondition(c schemas.Condition) condition {
	out := condition{Condition: c}
	for _, v := range slices.Concat(c.In, c.NotIn) {
		out.in = append(out.in, newLimit(v))
	}
	if c.Min != nil {
		l := newLimit(*c.Min)
		out.min = &l
	}
	if c.Max != nil {
		l := newLimit(*c.Max)
		out.max = &l
	}
	return out
}

func newLimit(text string) limit {
	return limit{text: text, number: numberIn([]byte(text)), time: timeIn([]byte(text))}
}

// numberIn is the number that a text spells in the form of JSON, if it does, in
// the range of floats.
func numberIn(text []byte) *big.Rat {
	if len(text) == 0 || len(text) > 64 || !isDigit(text[len(text)-1]) {
		return nil
	}
	padded := append(slices.Clone(text), zeros[:]...)
	if number(padded, 0) != len(text) {
		return nil
	}
	if bytes.ContainsAny(text, "eE") {
		if f, err := strconv.ParseFloat(string(text), 64); err != nil || f == 0 {
			return nil
		}
	}
	v, _ := new(big.Rat).SetString(string(text))
	return v
}

// timeIn is the instant, or the beginning of the day in UTC, that a text spells.
func timeIn(text []byte) *int64 {
	if len(text) > longestTime {
		return nil
	}
	padded := append(slices.Clone(text), zeros[:]...)
	if v, ok := parseDate(padded); ok && len(text) == len("2006-01-02") {
		micros := int64(v) * microsADay
		return &micros
	}
	if v, n := parseTime(padded); n > 0 && n == len(text) {
		return &v
	}
	return nil
}

const microsADay = 86400 * 1e6

// filter leaves out the records that do not meet the conditions.
func (w *work) filter() error {
	for i := range w.conditions {
		c := &w.conditions[i]
		at, err := w.filterColumn(c)
		if err != nil {
			return err
		}
		var src *column
		if at >= 0 {
			src = w.view(w.root, at)
		}
		for row := range w.root.rows {
			if !w.gone[row] && !c.met(src, row) {
				w.gone[row] = true
				w.filtered++
			}
		}
	}
	return nil
}

// filterColumn is where the column of a condition stands; -1 where no record of
// the batch has a value in it. A column that no record ever had is a slip,
// unless its absence is what is asked for. // Invariant 11
func (w *work) filterColumn(c *condition) (at int, err error) {
	for i, f := range w.root.table.Columns.Fields() {
		if source, ok := sourceOf(f); ok && schemas.Column(source) == c.Column {
			return i, nil
		}
	}
	named := slices.ContainsFunc(w.m.root.columns, func(k *column) bool { return schemas.Column(k.source) == c.Column })
	if !named && (c.In != nil || c.min != nil || c.max != nil) {
		return -1, fmt.Errorf("filter %s: no record has a column %s", w.m.stream.Name, c.Column)
	}
	return -1, nil
}

// met reports whether the value in row meets the condition; src is nil where no
// row has one. The answer is the value's alone: it does not depend on the type
// that the values around it have led to. // Invariant 8
func (c *condition) met(src *column, row int) bool {
	if src == nil || src.nothing(row) {
		return c.Null != nil && *c.Null || c.NotIn != nil
	}
	switch {
	case c.Null != nil:
		return !*c.Null
	case c.In != nil:
		return c.among(src, row)
	case c.NotIn != nil:
		return !c.among(src, row)
	case c.min != nil:
		order, ok := src.compare(row, c.min)
		return ok && order >= 0
	}
	order, ok := src.compare(row, c.max)
	return ok && order <= 0
}

// among reports whether the value is one of those listed.
func (c *condition) among(src *column, row int) bool {
	for i := range c.in {
		if order, ok := src.compare(row, &c.in[i]); ok && order == 0 {
			return true
		}
	}
	return false
}

// nothing reports whether there is no value in row, or a list without any, which
// is none in a column of scalars.
func (c *column) nothing(row int) bool {
	switch {
	case c.null(row):
		return true
	case c.kind == kindList:
		for i := c.offsets[row]; i < c.offsets[row+1]; i++ {
			if !c.elem.null(int(i)) {
				return false
			}
		}
		return true
	case c.kind == kindJSON:
		v := jsontext.Value(c.cell(row))
		return v.Kind() == 'n' || v.Kind() == '[' && !slices.ContainsFunc(itemsOf(v), func(v jsontext.Value) bool { return v.Kind() != 'n' })
	}
	return false
}

// compare orders the value in row and a limit; ok is false where they are not
// of a kind.
func (c *column) compare(row int, l *limit) (order int, ok bool) {
	switch c.kind {
	case kindText:
		return compareText(c.cell(row), l)
	case kindJSON:
		return compareJSON(c.cell(row), l)
	case kindBool:
		return compareText(c.appendText(nil, row), l)
	case kindInt, kindDecimal, kindFloat:
		if l.number == nil {
			return 0, false
		}
		return c.compareNumber(row, l), true
	case kindDate:
		return compareTime(int64(c.dates[row])*microsADay, l)
	case kindTime:
		return compareTime(c.ints[row], l)
	}
	return 0, false
}

func compareTime(micros int64, l *limit) (order int, ok bool) {
	if l.time == nil {
		return 0, false
	}
	return cmp.Compare(micros, *l.time), true
}

// compareText compares a text as what it spells: numbers and instants with
// their like, true and false with 1 and 0 as well, what is neither as text.
func compareText(text []byte, l *limit) (order int, ok bool) {
	number, time := numberIn(text), timeIn(text)
	switch {
	case number != nil && l.number != nil:
		return number.Cmp(l.number), true
	case time != nil && l.time != nil:
		return cmp.Compare(*time, *l.time), true
	case l.number != nil && string(text) == "true":
		return big.NewRat(1, 1).Cmp(l.number), true
	case l.number != nil && string(text) == "false":
		return new(big.Rat).Cmp(l.number), true
	case number != nil, time != nil, l.number != nil, l.time != nil:
		return 0, false
	}
	return bytes.Compare(text, []byte(l.text)), true
}

func compareJSON(v jsontext.Value, l *limit) (order int, ok bool) {
	switch v.Kind() {
	case '[', '{':
		return 0, false
	case '"':
		text, _ := jsontext.AppendUnquote(nil, v)
		return compareText(text, l)
	}
	return compareText(bytes.TrimSpace(v), l)
}

// compareNumber compares with the limit in the column's own units, if it is a
// number of them, else in fractions.
func (c *column) compareNumber(row int, l *limit) int {
	if c.kind != kindFloat {
		if l.units == nil || l.scale != c.scale {
			l.scale, l.units = c.scale, unitsOf(l.number, c.scale)
		}
		switch {
		case l.units.ok && c.kind == kindInt:
			return decimal128.FromI64(c.ints[row]).Cmp(l.units.n)
		case l.units.ok:
			return c.decimals[row].Cmp(l.units.n)
		}
	}
	return c.rat(row).Cmp(l.number)
}

// units is a number as a decimal of some scale, if it is one.
type units struct {
	n  decimal128.Num
	ok bool
}

func unitsOf(v *big.Rat, scale int32) *units {
	scaled := new(big.Rat).SetFrac(decimal128.GetScaleMultiplier(int(scale)).BigInt(), big.NewInt(1))
	if scaled.Mul(scaled, v); !scaled.IsInt() || scaled.Num().BitLen() > 120 {
		return &units{}
	}
	return &units{n: decimal128.FromBigInt(scaled.Num()), ok: true}
}

// rat is the number in row, exactly.
func (c *column) rat(row int) *big.Rat {
	switch c.kind {
	case kindInt:
		return new(big.Rat).SetInt64(c.ints[row])
	case kindFloat:
		return new(big.Rat).SetFloat64(c.floats[row])
	}
	unit := decimal128.GetScaleMultiplier(int(c.scale))
	return new(big.Rat).SetFrac(c.decimals[row].BigInt(), unit.BigInt())
}
