package encode

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

const (
	dictionaryValues = 1 << 14
	dictionaryBytes  = 512 << 10
)

// dictionary encodes a column. It writes each distinct value once, and then the index of its value for each row. All
// values are added before the first page is written.
type dictionary struct {
	*tools // tools.places has the index of each row's value; null rows are left out
	values int
	plain  leaf // encodes the distinct values, and knows their bounds
	taken  int  // number of rows up to the end of the current page; null rows do not count
	first  int  // number of rows before the current page; null rows do not count
	fill   func(a arrow.Array, from, to int) bool
}

func newDictionary(t arrow.DataType, with *tools) *dictionary {
	with.places = with.places[:0]
	d := &dictionary{tools: with, plain: leafOf(t, with)}
	switch t.(type) {
	case *arrow.StringType:
		d.fill = filler(d, func(a arrow.Array) func(int) string { return a.(*array.String).Value }, func(v string) int { return len(v) + 4 })
	case *arrow.Int64Type:
		d.plain = &plainIntegers{integers{tools: with}}
		d.fill = filler(d, func(a arrow.Array) func(int) int64 { return a.(*array.Int64).Value }, width[int64](8))
	case *arrow.TimestampType:
		d.plain = &plainIntegers{integers{tools: with}}
		d.fill = filler(d, func(a arrow.Array) func(int) arrow.Timestamp { return a.(*array.Timestamp).Value }, width[arrow.Timestamp](8))
	case *arrow.Date32Type:
		d.fill = filler(d, func(a arrow.Array) func(int) arrow.Date32 { return a.(*array.Date32).Value }, width[arrow.Date32](4))
	case *arrow.Float64Type:
		d.fill = filler(d, func(a arrow.Array) func(int) uint64 {
			f := a.(*array.Float64)
			return func(i int) uint64 { return math.Float64bits(f.Value(i)) }
		}, width[uint64](8))
	case *arrow.Decimal128Type:
		d.fill = filler(d, func(a arrow.Array) func(int) decimal128.Num { return a.(*array.Decimal128).Value }, width[decimal128.Num](16))
	default:
		return nil
	}
	return d
}

func width[T any](n int) func(T) int { return func(T) int { return n } }

func filler[T comparable](d *dictionary, of func(arrow.Array) func(int) T, size func(T) int) func(arrow.Array, int, int) bool {
	places := map[T]uint32{}
	var last T // the previous value: equal values are often adjacent
	var at uint32
	bytes := 0
	return func(a arrow.Array, from, to int) bool {
		value, whole := of(a), a.NullN() == 0
		for i := from; i < to; i++ {
			if !whole && a.IsNull(i) {
				continue
			}
			if v := value(i); v != last || d.values == 0 {
				place, ok := places[v]
				if !ok {
					if bytes += size(v); d.values == dictionaryValues || bytes > dictionaryBytes {
						return false
					}
					place = uint32(d.values)
					places[v] = place
					d.values++
					d.plain.take(a, i, i+1)
				}
				last, at = v, place
			}
			d.places = append(d.places, at)
		}
		return true
	}
}

func (d *dictionary) take(a arrow.Array, from, to int) {
	if a.NullN() == 0 {
		d.taken += to - from
		return
	}
	for i := from; i < to; i++ {
		if a.IsValid(i) {
			d.taken++
		}
	}
}

func (d *dictionary) size() int { return (d.taken - d.first) * bits.Len(uint(d.values)) / 8 }

func (d *dictionary) encode(dst []byte) []byte {
	width := max(1, bits.Len(uint(d.values-1)))
	dst = appendHybrid(append(dst, byte(width)), d.places[d.first:d.taken], uint(width))
	d.first = d.taken
	return dst
}

func (d *dictionary) bounds(s *metadata.EncodedStatistics) { d.plain.bounds(s) }

// plainIntegers encodes integers without compression, as a dictionary requires.
type plainIntegers struct{ integers }

func (l *plainIntegers) encode(dst []byte) []byte {
	for _, v := range l.tools.integers {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
	}
	l.tools.integers = l.tools.integers[:0]
	return dst
}
