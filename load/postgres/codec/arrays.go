package codec

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/penstock-data/penstock/schemas"
)

// oidOf returns the OID of the element type of an array.
func (f format) oidOf(t arrow.DataType) uint32 {
	if _, ok := t.(*schemas.JSONType); ok {
		if f.jsonb {
			return pgtype.JSONBOID
		}
		return pgtype.JSONOID
	}
	switch t.ID() {
	case arrow.BOOL:
		return pgtype.BoolOID
	case arrow.INT64:
		return pgtype.Int8OID
	case arrow.FLOAT64:
		return pgtype.Float8OID
	case arrow.DATE32:
		return pgtype.DateOID
	case arrow.TIMESTAMP:
		return pgtype.TimestamptzOID
	case arrow.DECIMAL128:
		return pgtype.NumericOID
	}
	return pgtype.TextOID
}

// lists encodes one-dimensional arrays. The binary form begins with the number of dimensions, which is 0 for an empty
// array. Then follow a flag, which is set if there are nulls, and the OID of the elements' type. An empty array ends
// here. Otherwise the number of elements follows, then the lower bound 1, and then the elements. The length of each
// element precedes it.
func (f format) lists(a arrow.Array, from arrow.DataType, to *arrow.ListType) (payload, error) {
	l, ok := a.(*array.List)
	if !ok {
		return nil, fmt.Errorf("encode %s as %s: no such widening", schemas.TypeName(from), schemas.TypeName(to))
	}
	row := 0 // row whose elements are encoded
	inner := f
	inner.note = func(_ int, raw, reason string) { f.reportValue(row, raw, reason) }
	elem, err := inner.encoderFor(l.ListValues(), from.(*arrow.ListType).Elem(), to.Elem())
	if err != nil {
		return nil, err
	}
	oid := f.oidOf(to.Elem())
	return func(b []byte, i int) []byte {
		row = i
		from, to := l.ValueOffsets(i)
		if from == to {
			return appendUint32s(b, 0, 0, oid)
		}
		nulls := uint32(0)
		for j := from; j < to; j++ {
			if elem.IsNull(int(j)) {
				nulls = 1
			}
		}
		b = appendUint32s(b, 1, nulls, oid, uint32(to-from), 1)
		for j := from; j < to; j++ {
			b = elem.append(b, int(j))
		}
		return b
	}, nil
}

func appendUint32s(b []byte, values ...uint32) []byte {
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}
