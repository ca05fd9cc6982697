package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/schemas"
)

// Formats of values in the wire protocol.
const (
	formatText   = 0
	formatBinary = 1
)

// A batch is passed on when it has this many rows or bytes.
const (
	readRows  = 8192
	readBytes = 4 << 20
)

var errValue = errors.New("invalid value for its type")

// decode appends one non-null value to a builder.
type decode func(v []byte) error

// Formats returns the wire format, text or binary, in which each column of a result must be requested. The format of
// JSON is text, because the binary form of jsonb is only the same text after a version byte.
func Formats(columns *arrow.Schema) []int16 {
	formats := make([]int16, columns.NumFields())
	for i, f := range columns.Fields() {
		if !schemas.SameType(schemas.TypeOf(f), schemas.JSON) {
			formats[i] = formatBinary
		}
	}
	return formats
}

// Batches collects rows of a result into record batches.
type Batches struct {
	visit   func(arrow.RecordBatch) error
	builder *array.RecordBuilder
	decode  []decode
	rows    int
	bytes   int
	some    bool // whether at least one batch was passed on
}

// NewBatches returns a collector for rows with the given columns. It passes the batches on to visit. A batch is valid
// until visit returns. The caller calls Release at the end.
func NewBatches(columns *arrow.Schema, visit func(arrow.RecordBatch) error) *Batches {
	c := &Batches{visit: visit, builder: array.NewRecordBuilder(memory.DefaultAllocator, columns)}
	for i, f := range columns.Fields() {
		put := decoderFor(c.builder.Field(i), schemas.TypeOf(f))
		if schemas.SameType(schemas.TypeOf(f), schemas.JSON) {
			put = compacted(put)
		}
		c.decode = append(c.decode, put)
	}
	return c
}

// Release frees the memory.
func (c *Batches) Release() { c.builder.Release() }

// Add adds a row, whose values are in the formats of [Formats].
func (c *Batches) Add(values [][]byte) error {
	for i, v := range values {
		if v == nil {
			c.builder.Field(i).AppendNull()
			continue
		}
		if err := c.decode[i](v); err != nil {
			return fmt.Errorf("read column %s: %w", c.builder.Schema().Field(i).Name, err)
		}
		c.bytes += len(v)
	}
	if c.rows++; c.rows >= readRows || c.bytes >= readBytes {
		return c.Flush()
	}
	return nil
}

// Flush passes on the rows that were added since the last batch, if there are any.
func (c *Batches) Flush() error {
	if c.rows == 0 {
		return nil
	}
	return c.passOn()
}

func (c *Batches) passOn() error {
	c.rows, c.bytes, c.some = 0, 0, true
	b := c.builder.NewRecordBatch()
	defer b.Release()
	return c.visit(b)
}

// decoderFor returns a decoder that appends values to b. The parameter t is penstock's type of the values. The decoder
// reads the form that an [encoder] writes. It also reads shorter integers and floats, which the result of a query may
// have.
func decoderFor(b array.Builder, t arrow.DataType) decode {
	switch b := b.(type) {
	case *array.BooleanBuilder:
		return sized(1, func(v []byte) error { b.Append(v[0] != 0); return nil })
	case *array.Int64Builder:
		return integerDecoder(b)
	case *array.Float64Builder:
		return floatDecoder(b)
	case *array.Date32Builder:
		return sized(4, func(v []byte) error {
			days := int64(int32(binary.BigEndian.Uint32(v))) + epochDays
			if days > math.MaxInt32 {
				return errValue // infinity
			}
			b.Append(arrow.Date32(days))
			return nil
		})
	case *array.TimestampBuilder:
		return sized(8, func(v []byte) error {
			micros := int64(binary.BigEndian.Uint64(v))
			if micros == math.MinInt64 || micros > math.MaxInt64-epochMicros {
				return errValue // the infinities
			}
			b.Append(arrow.Timestamp(micros + epochMicros))
			return nil
		})
	case *array.Decimal128Builder:
		scale := t.(*arrow.Decimal128Type).Scale
		return func(v []byte) error {
			n, err := decimalOf(v, scale)
			if err == nil {
				b.Append(n)
			}
			return err
		}
	case *array.StringBuilder:
		return func(v []byte) error { b.BinaryBuilder.Append(v); return nil }
	case *array.ListBuilder:
		return listDecoder(b, t.(*arrow.ListType).Elem())
	}
	return func([]byte) error { return fmt.Errorf("no value can be read as %s", schemas.TypeName(t)) }
}

func integerDecoder(b *array.Int64Builder) decode {
	return func(v []byte) error {
		switch len(v) {
		case 2:
			b.Append(int64(int16(binary.BigEndian.Uint16(v))))
		case 4:
			b.Append(int64(int32(binary.BigEndian.Uint32(v))))
		case 8:
			b.Append(int64(binary.BigEndian.Uint64(v)))
		default:
			return errValue
		}
		return nil
	}
}

func floatDecoder(b *array.Float64Builder) decode {
	return func(v []byte) error {
		switch len(v) {
		case 4:
			b.Append(float64(math.Float32frombits(binary.BigEndian.Uint32(v))))
		case 8:
			b.Append(math.Float64frombits(binary.BigEndian.Uint64(v)))
		default:
			return errValue
		}
		return nil
	}
}

// The function compacted() removes the whitespace that jsonb adds to documents.
func compacted(put decode) decode {
	return func(v []byte) error {
		doc := jsontext.Value(v)
		if err := doc.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
			return put(v)
		}
		return put(doc)
	}
}

func sized(n int, f decode) decode {
	return func(v []byte) error {
		if len(v) != n {
			return errValue
		}
		return f(v)
	}
}

// listDecoder decodes one-dimensional arrays; see [format.lists].
func listDecoder(b *array.ListBuilder, elem arrow.DataType) decode {
	item := decoderFor(b.ValueBuilder(), elem)
	return func(v []byte) error {
		if len(v) < 12 {
			return errValue
		}
		b.Append(true)
		if dimensions := binary.BigEndian.Uint32(v); dimensions == 0 {
			return nil
		} else if dimensions > 1 || len(v) < 20 {
			return errValue
		}
		n := int(binary.BigEndian.Uint32(v[12:]))
		v = v[20:]
		for range n {
			if len(v) < 4 {
				return errValue
			}
			size := int(int32(binary.BigEndian.Uint32(v)))
			v = v[4:]
			if size < 0 {
				b.ValueBuilder().AppendNull()
				continue
			}
			if size > len(v) {
				return errValue
			}
			if err := item(v[:size]); err != nil {
				return err
			}
			v = v[size:]
		}
		return nil
	}
}
