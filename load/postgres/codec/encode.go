package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// payload appends the binary form of a non-null value, without its length.
type payload func(b []byte, row int) []byte

// valueNote is called for a value that a column cannot store unchanged. The reason also says what is stored instead.
// Invariant 11
type valueNote func(row int, raw, reason string)

// encoder encodes the values of one column of a batch for a column of a table. The type of the table's column may be
// wider than the type of the batch's column.
type encoder struct {
	arrow.Array
	put payload
}

// append appends the length of a row's value, and then the value. For null, it appends the length -1.
func (e *encoder) append(b []byte, row int) []byte {
	if e.put == nil || e.IsNull(row) {
		return append(b, 0xff, 0xff, 0xff, 0xff)
	}
	at := len(b)
	b = e.put(append(b, 0, 0, 0, 0), row)
	if len(b) == at { // the column cannot store the value in any form
		return append(b, 0xff, 0xff, 0xff, 0xff)
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// format has the properties of the table's column that an encoder needs.
type format struct {
	jsonb bool
	note  valueNote // may be nil
}

func (f format) reportValue(row int, raw, reason string) {
	if f.note != nil {
		f.note(row, raw, reason)
	}
}

// encoderFor returns an encoder for the values of the array a. The second argument is penstock's type of these values.
// The third is the type to which the encoder casts them. [dialect.Cast] makes the same casts in SQL.
func (f format) encoderFor(a arrow.Array, from, to arrow.DataType) (*encoder, error) {
	put, err := f.payloadFor(a, from, to)
	if err != nil {
		return nil, err
	}
	return &encoder{Array: a, put: put}, nil
}

func (f format) payloadFor(a arrow.Array, from, to arrow.DataType) (payload, error) {
	_, isJSON := to.(*schemas.JSONType)
	list, isList := to.(*arrow.ListType)
	switch {
	case from.ID() == arrow.NULL:
		return nil, nil
	case isJSON:
		return f.documents(a, from)
	case isList:
		return f.lists(a, from, list)
	case from.ID() == arrow.LIST: // all arrays so far were empty, so their type was a guess; later values have shown that the column has no lists
		return nil, nil
	case schemas.SameType(to, schemas.Text):
		return f.texts(a, from)
	}
	return f.scalars(a, from, to)
}

func (f format) scalars(a arrow.Array, from, to arrow.DataType) (payload, error) {
	switch a := a.(type) {
	case *array.Boolean:
		return func(b []byte, i int) []byte {
			if a.Value(i) {
				return append(b, 1)
			}
			return append(b, 0)
		}, nil
	case *array.Int64:
		if to, ok := to.(*arrow.Decimal128Type); ok {
			return decimals(func(i int) decimal128.Num { return decimal128.FromI64(a.Value(i)) }, 0, to.Scale), nil
		}
		values := a.Int64Values()
		return func(b []byte, i int) []byte { return binary.BigEndian.AppendUint64(b, uint64(values[i])) }, nil
	case *array.Decimal128:
		if to, ok := to.(*arrow.Decimal128Type); ok {
			return decimals(a.Value, from.(*arrow.Decimal128Type).Scale, to.Scale), nil
		}
	case *array.Float64:
		values := a.Float64Values()
		return func(b []byte, i int) []byte { return binary.BigEndian.AppendUint64(b, math.Float64bits(values[i])) }, nil
	case *array.Date32:
		return f.dates(a), nil
	case *array.Timestamp:
		return f.instants(a), nil
	}
	return nil, fmt.Errorf("encode %s as %s: no such widening", schemas.TypeName(from), schemas.TypeName(to))
}

func decimals(value func(int) decimal128.Num, from, to int32) payload {
	if from == to {
		return func(b []byte, i int) []byte { return appendNumeric(b, value(i), to) }
	}
	return func(b []byte, i int) []byte {
		return appendNumeric(b, value(i).IncreaseScaleBy(to-from), to)
	}
}

// Postgres counts dates and times from 2000-01-01. Its first day is in 4714 BC. Its last day is later than Arrow's
// last timestamp, but earlier than Arrow's last date.
const (
	epochDays   = 10957
	epochMicros = epochDays * 24 * 60 * 60 * 1_000_000
	minDays     = -2451545 // in days since 2000-01-01
	minMicros   = minDays * 24 * 60 * 60 * 1_000_000
	maxDays     = 2145031948 // in days since 2000-01-01
	outOfRange  = "outside the range of Postgres dates: the cell is null"
)

func (f format) dates(a *array.Date32) payload {
	return func(b []byte, i int) []byte {
		days := int64(a.Value(i)) - epochDays
		if days < minDays || days > maxDays {
			f.reportValue(i, strconv.Quote(a.ValueStr(i)), outOfRange)
			return b[:len(b)-4]
		}
		return binary.BigEndian.AppendUint32(b, uint32(int32(days)))
	}
}

func (f format) instants(a *array.Timestamp) payload {
	return func(b []byte, i int) []byte {
		micros := int64(a.Value(i))
		if micros < minMicros+epochMicros {
			f.reportValue(i, strconv.Quote(a.ValueStr(i)), outOfRange)
			return b[:len(b)-4]
		}
		return binary.BigEndian.AppendUint64(b, uint64(micros-epochMicros))
	}
}

// texts encodes values as text.
func (f format) texts(a arrow.Array, from arrow.DataType) (payload, error) {
	s, ok := a.(*array.String)
	if !ok {
		return canonicalText(a, from)
	}
	if Storable(s.ValueBytes()) {
		return func(b []byte, i int) []byte { return append(b, s.Value(i)...) }, nil
	}
	return func(b []byte, i int) []byte {
		text := s.Value(i)
		safe := EscapeText(text)
		if safe != text {
			f.reportValue(i, string(load.AppendQuoted(nil, text)), unstorable)
		}
		return append(b, safe...)
	}, nil
}

const (
	unstorable = `Postgres text cannot hold zero bytes or invalid UTF-8: they are stored as \u0000 or \x…`
	unfitting  = "the column cannot hold this document: its text is stored as a JSON string"
)

// canonicalText encodes values as text in a fixed form. It does not encode texts or lists.
func canonicalText(a arrow.Array, from arrow.DataType) (payload, error) {
	switch a := a.(type) {
	case *array.Boolean:
		return func(b []byte, i int) []byte { return strconv.AppendBool(b, a.Value(i)) }, nil
	case *array.Int64:
		return func(b []byte, i int) []byte { return strconv.AppendInt(b, a.Value(i), 10) }, nil
	case *array.Decimal128:
		scale := from.(*arrow.Decimal128Type).Scale
		return func(b []byte, i int) []byte { return append(b, a.Value(i).ToString(scale)...) }, nil
	case *array.Float64:
		return func(b []byte, i int) []byte { return strconv.AppendFloat(b, a.Value(i), 'g', -1, 64) }, nil
	case *array.Date32:
		return func(b []byte, i int) []byte { return a.Value(i).ToTime().AppendFormat(b, time.DateOnly) }, nil
	case *array.Timestamp:
		return func(b []byte, i int) []byte { return appendInstant(b, a.Value(i).ToTime(arrow.Microsecond)) }, nil
	}
	return nil, fmt.Errorf("encode %s as text: no such widening", schemas.TypeName(from))
}

// documents encodes values as JSON.
func (f format) documents(a arrow.Array, from arrow.DataType) (payload, error) {
	text, err := jsonText(a, from)
	if err != nil {
		return nil, err
	}
	_, whole := from.(*schemas.JSONType)
	if !whole && from.ID() != arrow.STRING && from.ID() != arrow.LIST && from.ID() != arrow.FLOAT64 {
		return f.versioned(text), nil
	}
	return f.versioned(func(b []byte, i int) []byte {
		at := len(b)
		b = text(b, i)
		if fits(b[at:], f.jsonb) {
			return b
		}
		raw := string(b[at:])
		f.reportValue(i, raw, unfitting)
		return load.AppendQuoted(b[:at], EscapeText(raw))
	}), nil
}

// The method versioned() puts the version byte of binary jsonb before the text.
func (f format) versioned(put payload) payload {
	if !f.jsonb {
		return put
	}
	return func(b []byte, i int) []byte { return put(append(b, 1), i) }
}

// jsonText encodes values as JSON text.
func jsonText(a arrow.Array, from arrow.DataType) (payload, error) {
	if s, ok := a.(*array.String); ok {
		if _, raw := from.(*schemas.JSONType); raw {
			return func(b []byte, i int) []byte { return append(b, s.Value(i)...) }, nil
		}
		return func(b []byte, i int) []byte { return load.AppendQuoted(b, s.Value(i)) }, nil
	}
	if l, ok := a.(*array.List); ok {
		return jsonList(l, from.(*arrow.ListType).Elem())
	}
	put, err := canonicalText(a, from)
	if err != nil || from.ID() != arrow.DATE32 && from.ID() != arrow.TIMESTAMP {
		return put, err
	}
	return func(b []byte, i int) []byte { return append(put(append(b, '"'), i), '"') }, nil
}

func jsonList(l *array.List, elem arrow.DataType) (payload, error) {
	values := l.ListValues()
	item := payload(nil)
	if elem.ID() != arrow.NULL {
		var err error
		if item, err = jsonText(values, elem); err != nil {
			return nil, err
		}
	}
	return func(b []byte, i int) []byte {
		from, to := l.ValueOffsets(i)
		b = append(b, '[')
		for j := from; j < to; j++ {
			if j > from {
				b = append(b, ',')
			}
			if item == nil || values.IsNull(int(j)) {
				b = append(b, "null"...)
			} else {
				b = item(b, int(j))
			}
		}
		return append(b, ']')
	}, nil
}
