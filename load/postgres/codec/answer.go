package codec

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/penstock-data/penstock/schemas"
)

// Answer converts the result of any query to batches. If a numeric column has an unknown scale, Answer first keeps rows
// until it can decide the column's type. It may have to keep the whole result: see [Answer.decideTypes].
type Answer struct {
	visit     func(arrow.RecordBatch) error
	fields    []arrow.Field
	formats   []int16
	undecided []int      // indexes of numeric columns whose type is not decided
	first     [][][]byte // rows that are kept until the types are decided
	held      int
	batches   *Batches // nil: the types are not decided
}

// NewAnswer returns an answer with the given columns. It passes the batches on to visit. There is at least one batch,
// which may be empty. The caller calls Release at the end.
func NewAnswer(columns []pgconn.FieldDescription, visit func(arrow.RecordBatch) error) *Answer {
	a := &Answer{visit: visit}
	for _, c := range columns {
		a.addColumn(c)
	}
	return a
}

var arrays = map[uint32]arrow.DataType{
	pgtype.BoolArrayOID: schemas.Bool, pgtype.Int8ArrayOID: schemas.Int64, pgtype.TextArrayOID: schemas.Text,
	pgtype.Float8ArrayOID: schemas.Float64, pgtype.DateArrayOID: schemas.Date, pgtype.TimestamptzArrayOID: schemas.Timestamp,
}

func (a *Answer) addColumn(f pgconn.FieldDescription) {
	t, format := schemas.Text, int16(formatText)
	switch f.DataTypeOID {
	case pgtype.BoolOID:
		t, format = schemas.Bool, formatBinary
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		t, format = schemas.Int64, formatBinary
	case pgtype.Float4OID, pgtype.Float8OID:
		t, format = schemas.Float64, formatBinary
	case pgtype.DateOID:
		t, format = schemas.Date, formatBinary
	case pgtype.TimestamptzOID:
		t, format = schemas.Timestamp, formatBinary
	case pgtype.JSONOID, pgtype.JSONBOID:
		t = schemas.JSON
	case pgtype.NumericOID:
		format = formatBinary
		if d, ok := decimalType(f.TypeModifier); ok {
			t = d
		} else {
			a.undecided = append(a.undecided, len(a.fields))
		}
	case pgtype.NumericArrayOID:
		if d, ok := decimalType(f.TypeModifier); ok {
			t, format = arrow.ListOf(d), formatBinary
		}
	default:
		if elem, ok := arrays[f.DataTypeOID]; ok {
			t, format = arrow.ListOf(elem), formatBinary
		}
	}
	field := schemas.Field(f.Name, t, "")
	a.fields, a.formats = append(a.fields, field), append(a.formats, format)
}

// decimalType returns the decimal type of a numeric column, from its type modifier. It returns false if the modifier
// does not set a precision, or if the precision is too large.
func decimalType(modifier int32) (arrow.DataType, bool) {
	m := modifier - 4
	precision, scale := m>>16, m&0x7ff
	if m < 0 || precision > 38 || scale > precision {
		return nil, false
	}
	return &arrow.Decimal128Type{Precision: precision, Scale: scale}, true
}

// Formats returns the wire format, text or binary, in which each column must be requested.
func (a *Answer) Formats() []int16 { return a.formats }

// Add adds a row of the result.
func (a *Answer) Add(values [][]byte) error {
	if a.batches == nil && len(a.undecided) == 0 {
		a.begin()
	}
	if a.batches != nil {
		return a.batches.Add(values)
	}
	row := make([][]byte, len(values))
	for i, v := range values {
		row[i] = slices.Clone(v)
		a.held += len(v)
	}
	if a.first = append(a.first, row); len(a.first) >= readRows || a.held >= readBytes {
		return a.decideTypes(false)
	}
	return nil
}

// decideTypes decides the types of numeric columns with an unknown scale. Its argument says whether a.first has all
// rows of the result. If so, and if a decimal type can hold all values of the column, the column gets a decimal type
// with the greatest scale among the values. Otherwise the column becomes text, which can hold any number.
func (a *Answer) decideTypes(whole bool) error {
	for _, i := range a.undecided {
		scale, digits := int32(0), int32(0)
		fits := whole
		for _, row := range a.first {
			if row[i] == nil {
				continue
			}
			units, shown, err := parseNumeric(row[i])
			fits = fits && err == nil
			if err == nil {
				scale, digits = max(scale, shown), max(digits, int32(len(units.String()))-shown)
			}
		}
		if t, ok := schemas.Decimal(max(digits, 0), scale); fits && ok {
			a.fields[i] = schemas.Field(a.fields[i].Name, t, "")
		}
	}
	a.begin()
	for _, row := range a.first {
		if err := a.batches.Add(row); err != nil {
			return err
		}
	}
	a.first = nil
	return nil
}

// begin creates the batches, because the types are now decided.
func (a *Answer) begin() {
	a.batches = NewBatches(arrow.NewSchema(a.fields, nil), a.visit)
	for _, i := range a.undecided {
		if b, isText := a.batches.builder.Field(i).(*array.StringBuilder); isText {
			a.batches.decode[i] = numericText(b)
		}
	}
}

// End passes on the remaining rows. If the result has no rows, it passes on an empty batch.
func (a *Answer) End() error {
	if a.batches == nil {
		if err := a.decideTypes(true); err != nil {
			return err
		}
	}
	if err := a.batches.Flush(); err != nil || a.batches.some {
		return err
	}
	return a.batches.passOn()
}

// Release frees the memory.
func (a *Answer) Release() {
	if a.batches != nil {
		a.batches.Release()
	}
}

// numericText decodes a numeric as text.
func numericText(b *array.StringBuilder) decode {
	return func(v []byte) error {
		text, err := numericString(v)
		if err == nil {
			b.Append(text)
		}
		return err
	}
}
