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
	"github.com/penstock-data/penstock/transform/jsonscan"
)

type condition struct {
	schemas.Condition
	in       []limit
	min, max *limit
}

type limit struct {
	text   string
	number *big.Rat // nil if the text is not a number
	time   *int64   // in microseconds; nil if the text is neither a date nor an instant

	units *units // the number as a decimal, cached in the scale of the last comparison
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

// numberIn returns the number that the text spells in JSON syntax. It returns nil for other texts, for more than 64
// bytes, and if an exponent makes the number too large or too small for a float.
func numberIn(text []byte) *big.Rat {
	if len(text) > 64 || !jsonscan.IsNumber(text) {
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

// timeIn returns the instant that the text spells. For a date, it returns the beginning of that day in UTC. It
// returns nil for other texts.
func timeIn(text []byte) *int64 {
	if v, ok := jsonscan.ParseDate(text); ok {
		micros := int64(v) * microsADay
		return &micros
	}
	if v, ok := jsonscan.ParseTime(text); ok {
		return &v
	}
	return nil
}

const microsADay = 86400 * 1e6

func (w *work) filter() error {
	for i := range w.conditions {
		c := &w.conditions[i]
		at, err := w.filterColumn(c)
		if err != nil {
			return err
		}
		var src *vector
		if at >= 0 {
			src = w.view(w.root, at)
		}
		for row := range w.root.rows {
			if !w.excluded[row] && !c.met(src, row) {
				w.excluded[row] = true
				w.filtered++
			}
		}
	}
	return nil
}

// filterColumn returns the column that a condition tests, or -1 if no record of the batch has a value in it. If neither
// the destination nor any record of the pass has the column, its name is probably misspelled. In that case,
// filterColumn returns an error if the condition has In, Min or Max. // Invariant 11
func (w *work) filterColumn(c *condition) (at int, err error) {
	for i, f := range w.root.table.Columns.Fields() {
		if source, ok := sourceOf(f); ok && schemas.Column(source) == c.Column {
			return i, nil
		}
	}
	named := slices.ContainsFunc(w.m.tables.root.columns, func(k *column) bool { return schemas.Column(k.source) == c.Column })
	if !named && (c.In != nil || c.min != nil || c.max != nil) {
		return -1, fmt.Errorf("filter %s: no record has a column %s", w.m.tables.stream.Name, c.Column)
	}
	return -1, nil
}

// The method met() reports whether a row meets the condition. The parameter src is nil if no row has a value. The
// result depends only on the row's value, not on the type to which other values have widened the column. // Invariant 8
func (c *condition) met(src *vector, row int) bool {
	if src == nil || src.isEmpty(row) {
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
		order, ok := c.min.compare(src, row)
		return ok && order >= 0
	}
	order, ok := c.max.compare(src, row)
	return ok && order <= 0
}

func (c *condition) among(src *vector, row int) bool {
	for i := range c.in {
		if order, ok := c.in[i].compare(src, row); ok && order == 0 {
			return true
		}
	}
	return false
}

// isEmpty reports whether a row has no value. A list without values counts as no value, because a column of scalars
// stores null for it.
func (c *vector) isEmpty(row int) bool {
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

// compare compares the value of a row with the limit. It returns false if the two are not comparable, for example a
// number and a date.
func (l *limit) compare(c *vector, row int) (order int, ok bool) {
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
		return l.compareNumber(c, row), true
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

// compareText compares a text with a limit by meaning. Two numbers are compared as numbers, and two instants as
// instants. The texts true and false equal the numbers 1 and 0. If neither side is a number or an instant, both are
// compared as texts. In all other cases, compareText returns false.
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

func (l *limit) compareNumber(c *vector, row int) int {
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
	return ratOf(c, row).Cmp(l.number)
}

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

func ratOf(c *vector, row int) *big.Rat {
	switch c.kind {
	case kindInt:
		return new(big.Rat).SetInt64(c.ints[row])
	case kindFloat:
		return new(big.Rat).SetFloat64(c.floats[row])
	}
	unit := decimal128.GetScaleMultiplier(int(c.scale))
	return new(big.Rat).SetFrac(c.decimals[row].BigInt(), unit.BigInt())
}
