package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/penstock-data/penstock/schemas"
)

// stream runs the function f in a read-only transaction. f gets a function, to which it passes the batches of the
// result. That function passes them on to visit. If the connection is lost before the first batch, stream runs f again.
// After the first batch, stream fails, because visit would otherwise get rows twice.
func (d *DB) stream(ctx context.Context, visit func(arrow.RecordBatch) error, f func(*session, func(arrow.RecordBatch) error) error) error {
	var failed error
	begun := false
	err := d.withReadTx(ctx, func(s *session) error {
		failed = f(s, func(b arrow.RecordBatch) error {
			begun = true
			return visit(b)
		})
		if begun {
			return nil
		}
		return failed
	})
	if err == nil {
		err = failed
	}
	return err
}

// Query implements [load.Querier]. The statement runs in a read-only transaction. Names without a schema mean tables
// of the destination's schema.
func (d *DB) Query(ctx context.Context, sql string, visit func(arrow.RecordBatch) error) error {
	q, err := parseQuery(sql)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	err = d.stream(ctx, visit, func(s *session, visit func(arrow.RecordBatch) error) error {
		defer s.deallocateQuery()
		stmt, name, err := s.prepareQuery(ctx, q)
		if err != nil {
			return err
		}
		return s.answer(ctx, stmt, name, visit)
	})
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

// answer runs a prepared statement and passes on its result.
func (s *session) answer(ctx context.Context, stmt *pgconn.StatementDescription, name string, visit func(arrow.RecordBatch) error) error {
	if len(stmt.ParamOIDs) > 0 {
		return errors.New("statements with parameters are not supported")
	}
	answer := &answer{each: visit}
	for _, f := range stmt.Fields {
		answer.add(f)
	}
	defer answer.release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rows := s.pg.ExecPrepared(ctx, name, nil, nil, answer.formats)
	for rows.NextRow() {
		if answer.take(rows.Values()); answer.err != nil {
			cancel() // the other rows are not needed
		}
	}
	if _, err := rows.Close(); err != nil && answer.err == nil {
		return cause(ctx, err)
	}
	return answer.end()
}

// answer converts the result of a query to batches. A numeric column may have an unknown scale. Then answer keeps the
// first rows, or the whole result, until the type of the column is decided: see [answer.decideTypes].
type answer struct {
	each      func(arrow.RecordBatch) error
	fields    []arrow.Field
	formats   []int16
	undecided []int      // indexes of numeric columns whose type is not decided
	first     [][][]byte // rows that are kept until the types are decided
	held      int
	c         *collector
	err       error
}

// OIDs of further types that are requested in binary format.
const (
	oidInt2   = 21
	oidInt4   = 23
	oidFloat4 = 700

	oidNumerics = 1231
)

var arrays = map[uint32]arrow.DataType{
	1000: schemas.Bool, 1016: schemas.Int64, 1009: schemas.Text, 1022: schemas.Float64, 1182: schemas.Date, 1185: schemas.Timestamp,
}

// add adds a column of the result.
func (a *answer) add(f pgconn.FieldDescription) {
	t, format := schemas.Text, int16(formatText)
	switch f.DataTypeOID {
	case oidBool:
		t, format = schemas.Bool, formatBinary
	case oidInt2, oidInt4, oidInt8:
		t, format = schemas.Int64, formatBinary
	case oidFloat4, oidFloat8:
		t, format = schemas.Float64, formatBinary
	case oidDate:
		t, format = schemas.Date, formatBinary
	case oidTimestamptz:
		t, format = schemas.Timestamp, formatBinary
	case oidJSON, oidJSONB:
		t = schemas.JSON
	case oidNumeric:
		format = formatBinary
		if d, ok := decimalType(f.TypeModifier); ok {
			t = d
		} else {
			a.undecided = append(a.undecided, len(a.fields))
		}
	case oidNumerics:
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

// take adds a row of the result.
func (a *answer) take(values [][]byte) {
	switch {
	case a.err != nil:
	case a.c != nil:
		a.c.row(values, a.each)
		a.err = a.c.err
	case len(a.undecided) == 0:
		a.begin()
		a.take(values)
	default:
		row := make([][]byte, len(values))
		for i, v := range values {
			row[i] = slices.Clone(v)
			a.held += len(v)
		}
		if a.first = append(a.first, row); len(a.first) >= readRows || a.held >= readBytes {
			a.decideTypes(false)
		}
	}
}

// decideTypes decides the types of numeric columns with an unknown scale. The parameter whole says whether all rows of
// the result are known. If they are, and if all values fit, the column becomes a decimal with the greatest scale.
// Otherwise it becomes text, which can hold any number.
func (a *answer) decideTypes(whole bool) {
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
		a.take(row)
	}
	a.first = nil
}

// begin creates the collector, because the types are now decided.
func (a *answer) begin() {
	a.c = newCollector(arrow.NewSchema(a.fields, nil))
	for i, f := range a.fields {
		b := a.c.builder.Field(i)
		switch {
		case slices.Contains(a.undecided, i) && f.Type.ID() == arrow.STRING:
			a.c.decode[i] = numericText(b.(*array.StringBuilder))
		case f.Type.ID() == arrow.INT64:
			a.c.decode[i] = anyInt(b.(*array.Int64Builder))
		case f.Type.ID() == arrow.FLOAT64:
			a.c.decode[i] = anyFloat(b.(*array.Float64Builder))
		}
	}
}

func (a *answer) release() {
	if a.c != nil {
		a.c.release()
	}
}

// end passes on the remaining rows. If the result has no rows, it passes on an empty batch.
func (a *answer) end() error {
	if a.c == nil && a.err == nil {
		a.decideTypes(true)
	}
	if a.c == nil || a.err != nil {
		return a.err
	}
	a.c.flush(a.each)
	if a.c.err != nil || a.c.some {
		return a.c.err
	}
	b := array.NewRecordBatch(a.c.builder.Schema(), emptyColumns(a.c.builder.Schema()), 0)
	defer b.Release()
	return a.each(b)
}

func emptyColumns(s *arrow.Schema) []arrow.Array {
	out := make([]arrow.Array, s.NumFields())
	for i, f := range s.Fields() {
		b := array.NewBuilder(memory.DefaultAllocator, f.Type)
		out[i] = b.NewArray()
		b.Release()
	}
	return out
}

func anyInt(b *array.Int64Builder) decode {
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

func anyFloat(b *array.Float64Builder) decode {
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
