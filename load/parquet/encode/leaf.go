package encode

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// leaf collects the values of a column and encodes them page by page. It leaves out nulls.
type leaf interface {
	// take adds the values a[from:to], without nulls.
	take(a arrow.Array, from, to int)
	// size returns the approximate size in bytes.
	size() int
	encode(dst []byte) []byte
	bounds(s *metadata.EncodedStatistics)
}

func leafOf(t arrow.DataType, with *tools) leaf {
	switch t := t.(type) {
	case *arrow.StringType:
		return &texts{tools: with}
	case *arrow.Int64Type, *arrow.TimestampType:
		return &integers{tools: with}
	case *arrow.Float64Type:
		return &floats{fixed: fixed{with}}
	case *arrow.Date32Type:
		return &dates{fixed: fixed{with}}
	case *arrow.Decimal128Type:
		return &decimals{fixed: fixed{with}, width: int(pqarrow.DecimalSize(t.Precision))}
	case *arrow.BooleanType:
		return &bools{tools: with}
	}
	return nil
}

func encodingOf(t arrow.DataType) parquet.Encoding {
	switch t.(type) {
	case *arrow.Int64Type, *arrow.TimestampType:
		return parquet.Encodings.DeltaBinaryPacked
	}
	return parquet.Encodings.Plain
}

type texts struct {
	*tools
	low, high []byte
	some      bool
}

func (l *texts) take(a arrow.Array, from, to int) {
	s := a.(*array.String)
	if from == to {
		return // an empty array may have no offsets
	}
	var data []byte
	if b := s.Data().Buffers()[2]; b != nil {
		data = b.Bytes()
	}
	offsets, whole := s.ValueOffsets(), s.NullN() == 0
	for i := from; i < to; i++ {
		if !whole && s.IsNull(i) {
			continue
		}
		v := data[offsets[i]:offsets[i+1]]
		l.bytes = append(binary.LittleEndian.AppendUint32(l.bytes, uint32(len(v))), v...)
		l.see(v)
	}
}

func (l *texts) see(v []byte) {
	switch {
	case !l.some:
		l.some, l.low, l.high = true, v, v
	case bytes.Compare(v, l.low) < 0:
		l.low = v
	case bytes.Compare(v, l.high) > 0:
		l.high = v
	}
}

func (l *texts) size() int { return len(l.bytes) }

func (l *texts) encode(dst []byte) []byte {
	dst = append(dst, l.bytes...)
	l.bytes = l.bytes[:0]
	return dst
}

func (l *texts) bounds(s *metadata.EncodedStatistics) {
	if l.some {
		s.SetMin(l.low).SetMax(l.high)
	}
}

type integers struct {
	tools     *tools
	low, high int64
	some      bool
}

func (l *integers) take(a arrow.Array, from, to int) {
	switch a := a.(type) {
	case *array.Int64:
		takeIntegers(l, a, a.Int64Values(), from, to)
	case *array.Timestamp:
		takeIntegers(l, a, a.TimestampValues(), from, to)
	}
}

func takeIntegers[T ~int64](l *integers, a arrow.Array, values []T, from, to int) {
	whole := a.NullN() == 0
	for i := from; i < to; i++ {
		if !whole && a.IsNull(i) {
			continue
		}
		v := int64(values[i])
		if !l.some {
			l.some, l.low, l.high = true, v, v
		}
		l.low, l.high = min(l.low, v), max(l.high, v)
		l.tools.integers = append(l.tools.integers, v)
	}
}

func (l *integers) size() int { return 8 * len(l.tools.integers) }

func (l *integers) encode(dst []byte) []byte {
	dst = appendDeltas(dst, l.tools.integers)
	l.tools.integers = l.tools.integers[:0]
	return dst
}

func (l *integers) bounds(s *metadata.EncodedStatistics) {
	if l.some {
		s.SetMin(binary.LittleEndian.AppendUint64(nil, uint64(l.low)))
		s.SetMax(binary.LittleEndian.AppendUint64(nil, uint64(l.high)))
	}
}

type fixed struct{ tools *tools }

func (l *fixed) size() int { return len(l.tools.bytes) }

func (l *fixed) encode(dst []byte) []byte {
	dst = append(dst, l.tools.bytes...)
	l.tools.bytes = l.tools.bytes[:0]
	return dst
}

type floats struct {
	fixed
	low, high float64
	some      bool
}

func (l *floats) take(a arrow.Array, from, to int) {
	f := a.(*array.Float64)
	for i := from; i < to; i++ {
		if f.IsNull(i) {
			continue
		}
		v := f.Value(i)
		l.tools.bytes = binary.LittleEndian.AppendUint64(l.tools.bytes, math.Float64bits(v))
		switch {
		case math.IsNaN(v): // NaN is not included in the bounds
		case !l.some:
			l.some, l.low, l.high = true, v, v
		default:
			l.low, l.high = min(l.low, v), max(l.high, v)
		}
	}
}

// bounds writes the bounds. Floating-point numbers have two zeros, -0 and +0. So a lower bound of zero is written as
// -0, and an upper bound of zero as +0, and the range includes both zeros.
func (l *floats) bounds(s *metadata.EncodedStatistics) {
	if !l.some {
		return
	}
	low, high := l.low, l.high
	if low == 0 {
		low = math.Copysign(0, -1)
	}
	if high == 0 {
		high = 0
	}
	s.SetMin(binary.LittleEndian.AppendUint64(nil, math.Float64bits(low)))
	s.SetMax(binary.LittleEndian.AppendUint64(nil, math.Float64bits(high)))
}

type dates struct {
	fixed
	low, high arrow.Date32
	some      bool
}

func (l *dates) take(a arrow.Array, from, to int) {
	d := a.(*array.Date32)
	for i := from; i < to; i++ {
		if d.IsNull(i) {
			continue
		}
		v := d.Value(i)
		if !l.some {
			l.some, l.low, l.high = true, v, v
		}
		l.low, l.high = min(l.low, v), max(l.high, v)
		l.tools.bytes = binary.LittleEndian.AppendUint32(l.tools.bytes, uint32(v))
	}
}

func (l *dates) bounds(s *metadata.EncodedStatistics) {
	if l.some {
		s.SetMin(binary.LittleEndian.AppendUint32(nil, uint32(l.low)))
		s.SetMax(binary.LittleEndian.AppendUint32(nil, uint32(l.high)))
	}
}

type decimals struct {
	fixed
	width     int
	low, high decimal128.Num
	some      bool
}

func (l *decimals) take(a arrow.Array, from, to int) {
	d := a.(*array.Decimal128)
	for i := from; i < to; i++ {
		if d.IsNull(i) {
			continue
		}
		v := d.Value(i)
		switch {
		case !l.some:
			l.some, l.low, l.high = true, v, v
		case v.Less(l.low):
			l.low = v
		case l.high.Less(v):
			l.high = v
		}
		l.tools.bytes = l.append(l.tools.bytes, v)
	}
}

func (l *decimals) append(dst []byte, v decimal128.Num) []byte {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(v.HighBits()))
	binary.BigEndian.PutUint64(b[8:], v.LowBits())
	return append(dst, b[16-l.width:]...)
}

func (l *decimals) bounds(s *metadata.EncodedStatistics) {
	if l.some {
		s.SetMin(l.append(nil, l.low)).SetMax(l.append(nil, l.high))
	}
}

type bools struct {
	*tools
	yes, not bool
}

func (l *bools) take(a arrow.Array, from, to int) {
	b := a.(*array.Boolean)
	for i := from; i < to; i++ {
		switch {
		case b.IsNull(i):
		case b.Value(i):
			l.bits, l.yes = append(l.bits, 1), true
		default:
			l.bits, l.not = append(l.bits, 0), true
		}
	}
}

func (l *bools) size() int { return len(l.bits) / 8 }

func (l *bools) encode(dst []byte) []byte {
	dst = pack(dst, l.bits, 1)
	l.bits = l.bits[:0]
	return dst
}

func (l *bools) bounds(s *metadata.EncodedStatistics) {
	if !l.yes && !l.not {
		return
	}
	least, most := byte(1), byte(0)
	if l.not {
		least = 0
	}
	if l.yes {
		most = 1
	}
	s.SetMin([]byte{least}).SetMax([]byte{most})
}
