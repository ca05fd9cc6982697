package parquet

import (
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
)

type bounds struct {
	key, ended, run int // column indexes; -1 where the table has no such column
	dead            int64
	last            string
	lowInt, highInt int64
	low, high       string
	text            bool
	rows            bool
	open            bool // a key is too long, or its type has no bounds: the file gets no bounds

	begun, unsorted bool // begun: a key was added; unsorted: a key is less than the key before it
	lastInt         int64
	lastText        string

	age    *age // nil: Trim removes no rows of the table
	oldest *int64
}

// longestBound is the greatest length, in bytes, of a text that is used as a bound.
const longestBound = 64

func newBounds(t *table) bounds {
	b := bounds{key: -1, ended: t.column(t.ended()), run: t.column(schemas.ColRun)}
	b.age = newAge(t.Name, t.column)
	if len(t.Key) > 0 {
		b.key = t.column(t.Key[0])
	}
	return b
}

func (b *bounds) add(columns []arrow.Array, rows int) {
	if b.ended >= 0 {
		b.dead += int64(rows - columns[b.ended].NullN())
	}
	if b.run >= 0 {
		if a, ok := columns[b.run].(*array.String); ok {
			for i := range rows {
				if v := a.Value(i); v > b.last {
					b.last = strings.Clone(v)
				}
			}
		}
	}
	if b.age != nil {
		for i := range rows {
			if at, ok := b.age.of(columns, i); ok && (b.oldest == nil || at < *b.oldest) {
				b.oldest = &at
			}
		}
	}
	if b.key < 0 {
		return
	}
	switch a := columns[b.key].(type) {
	case *array.Int64:
		for _, v := range a.Int64Values() {
			b.unsorted = b.unsorted || b.begun && v < b.lastInt
			b.begun, b.lastInt = true, v
			if !b.rows {
				b.rows, b.lowInt, b.highInt = true, v, v
			}
			b.lowInt, b.highInt = min(b.lowInt, v), max(b.highInt, v)
		}
	case *array.String:
		for i := range rows {
			v := a.Value(i)
			b.unsorted = b.unsorted || b.begun && v < b.lastText
			b.begun, b.lastText = true, v
			switch {
			case len(v) > longestBound:
				b.open = true
			case !b.rows:
				b.rows, b.text, b.low, b.high = true, true, strings.Clone(v), strings.Clone(v)
			case v < b.low:
				b.low = strings.Clone(v)
			case v > b.high:
				b.high = strings.Clone(v)
			}
		}
		b.lastText = strings.Clone(b.lastText) // the array may be released
	default:
		b.open = true
	}
}

func (b *bounds) into(f *file) {
	f.Oldest = b.oldest
	f.Dead, f.Run, f.Sorted = b.dead, b.last, b.begun && !b.unsorted
	if !b.rows || b.open {
		return
	}
	if !b.text {
		b.low, b.high = strconv.FormatInt(b.lowInt, 10), strconv.FormatInt(b.highInt, 10)
	}
	f.Min, f.Max = &b.low, &b.high
}
