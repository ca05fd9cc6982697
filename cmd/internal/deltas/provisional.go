package deltas

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// provisionalHash is the hash of provisional rows. No record has this hash, so the next reading replaces the row.
const provisionalHash = "provisional"

// provisionalRows is the largest number of rows of a table in which the records of events are searched. A larger table
// gets the values from the next reading of the stream.
const provisionalRows = 200_000

// provisional applies the values of events to rows whose records cannot be requested one by one. It changes
// neither columns nor types, and adds no rows.
type provisional struct {
	x      *delta
	table  schemas.Table
	rowOf  map[string]int // from the key, as rowhash.Text formats it, to the row number in the field `values`
	values arrow.RecordBatch
}

func (x *delta) provisional(ctx context.Context, p *destinationPosition, stamp string) (arrow.RecordBatch, schemas.Table, error) {
	s := x.q.stream
	var none schemas.Table
	if len(x.described) == 0 || len(s.Key) != 1 || s.Table.Mode.Or(schemas.Merge) != schemas.Merge || p.pos.Rules != "" || len(s.Rules.Filter) > 0 {
		return nil, none, nil
	}
	tables, err := p.dest.Tables(ctx, s.Table.Name)
	if err != nil || len(tables) != 1 { // with child tables, the child rows would be needed too
		return nil, none, err
	}
	v := &provisional{x: x, table: tables[0], rowOf: map[string]int{}}
	if err := v.read(stamp); err != nil || v.values == nil {
		return nil, none, err
	}
	defer v.values.Release()
	b, err := v.find(ctx, p)
	return b, v.table, err
}

// plainly() returns the members of an event that are scalars, not null, and belong to existing columns.
func (v *provisional) plainly(e *entity) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(e.data, &all) != nil || records.KeyOf(e.data, v.x.q.stream.Key[0]) != e.key {
		return nil
	}
	for name, value := range all {
		known := slices.ContainsFunc(v.table.Columns.Fields(), func(f arrow.Field) bool { return schemas.Source(f) == "/"+name })
		if !known || len(value) == 0 || value[0] == '{' || value[0] == '[' || string(value) == "null" {
			delete(all, name)
		}
	}
	return all
}

// read maps the values of events that were received after the last reading. It leaves out a column if its type would
// have to change: then events format the value differently from the source.
func (v *provisional) read(stamp string) error {
	var records [][]byte
	since := v.x.since(v.x.q)
	for _, e := range v.x.described {
		if !e.received.After(since) {
			continue // a pass may have read this change or a later one // Invariant 8
		}
		if plain := v.plainly(e); len(plain) > 1 {
			text, err := json.Marshal(plain)
			if err != nil {
				return err
			}
			records = append(records, text)
		}
	}
	if len(records) == 0 {
		return nil
	}
	m, err := v.x.mapSome(stamp, []schemas.Table{v.table}, records)
	if err != nil {
		return nil
	}
	defer m.release()
	i := slices.IndexFunc(m.batches, func(b transform.TableBatch) bool { return b.Table.Name == v.table.Name })
	if i < 0 || len(m.rejects) > 0 {
		return nil
	}
	v.values = m.batches[i].Batch
	v.values.Retain()
	keys, err := rowhash.Columns(v.values, v.x.q.stream.Key)
	if err != nil {
		return err
	}
	for row := range int(v.values.NumRows()) {
		v.rowOf[rowhash.KeyText(keys, row)] = row
	}
	return nil
}

var errEnoughRows = errors.New("enough rows")

func (v *provisional) find(ctx context.Context, p *destinationPosition) (arrow.RecordBatch, error) {
	columns := v.columns()
	cells := make([][]arrow.Array, len(columns))
	defer func() {
		for _, some := range cells {
			for _, c := range some {
				c.Release()
			}
		}
	}()
	seen, found := 0, int64(0)
	err := p.dest.Scan(ctx, v.table.Name, columns, func(b arrow.RecordBatch) error {
		if seen += int(b.NumRows()); seen > provisionalRows {
			return errEnoughRows
		}
		key, err := rowhash.Columns(b, append(slices.Clone(v.x.q.stream.Key), schemas.ColDeletedAt))
		if err != nil {
			return err
		}
		for row := range int(b.NumRows()) {
			said, told := v.rowOf[rowhash.KeyText(key[:1], row)]
			if !told || !key[1].IsNull(row) {
				continue
			}
			for c, name := range columns {
				a, err := v.cell(b.Column(c), row, name, said)
				if err != nil {
					return err
				}
				cells[c] = append(cells[c], a)
			}
			found++
		}
		return nil
	})
	if errors.Is(err, errEnoughRows) || err == nil && found == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return v.batch(columns, cells, found)
}

func (v *provisional) columns() []string {
	var names []string
	for _, f := range v.table.Columns.Fields() {
		names = append(names, f.Name)
	}
	return names
}

func (v *provisional) cell(have arrow.Array, row int, name string, said int) (arrow.Array, error) {
	if name == schemas.ColHash {
		b := array.NewStringBuilder(memory.DefaultAllocator)
		defer b.Release()
		b.Append(provisionalHash)
		return b.NewArray(), nil
	}
	from, at := have, row
	if i := v.values.Schema().FieldIndices(name); len(i) == 1 {
		tells := v.values.Column(i[0])
		if tells.IsValid(said) && arrow.TypeEqual(tells.DataType(), have.DataType()) {
			from, at = tells, said
		}
	}
	one := array.NewSlice(from, int64(at), int64(at)+1)
	defer one.Release()
	return array.Concatenate([]arrow.Array{one}, memory.DefaultAllocator)
}

func (v *provisional) batch(columns []string, cells [][]arrow.Array, rows int64) (arrow.RecordBatch, error) {
	var fields []arrow.Field
	var all []arrow.Array
	defer func() {
		for _, a := range all {
			a.Release()
		}
	}()
	for c, name := range columns {
		a, err := array.Concatenate(cells[c], memory.DefaultAllocator)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
		fields = append(fields, v.table.Columns.Field(v.table.Columns.FieldIndices(name)[0]))
	}
	md := v.table.Columns.Metadata()
	return array.NewRecordBatch(arrow.NewSchema(fields, &md), all, rows), nil
}
