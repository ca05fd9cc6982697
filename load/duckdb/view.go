//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// staged is what was written to one table since the last Apply: batches, in
// groups of one schema each.
type staged struct {
	schemas.Table // Columns: the join of all groups' schemas
	groups        []*group
	rows          int64
}

type group struct {
	schema  *arrow.Schema
	batches []arrow.RecordBatch
}

// add retains b. A batch without ordinals gets its rows' positions for them.
func (s *staged) add(b arrow.RecordBatch) {
	if b.Schema().HasField(schemas.ColOrdinal) {
		b.Retain()
	} else {
		b = withOrdinals(b, s.rows)
	}
	s.rows += b.NumRows()
	if n := len(s.groups); n > 0 && s.groups[n-1].schema.Equal(b.Schema()) {
		s.groups[n-1].batches = append(s.groups[n-1].batches, b)
		return
	}
	s.groups = append(s.groups, &group{schema: b.Schema(), batches: []arrow.RecordBatch{b}})
}

func withOrdinals(b arrow.RecordBatch, from int64) arrow.RecordBatch {
	ib := array.NewInt64Builder(memory.DefaultAllocator)
	defer ib.Release()
	for i := range b.NumRows() {
		ib.Append(from + i)
	}
	ordinals := ib.NewArray()
	defer ordinals.Release()
	fields := append(b.Schema().Fields(), arrow.Field{Name: schemas.ColOrdinal, Type: schemas.Int64})
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), append(b.Columns(), ordinals), b.NumRows())
}

func (s *staged) release() {
	for _, g := range s.groups {
		for _, b := range g.batches {
			b.Release()
		}
	}
	s.groups = nil
}

// scan calls use with a FROM item of the columns named, in the types that they
// have in want. It can be read once, and all of it must be: the engine reads
// columns that are left out in the place of others.
//
// Registering a view of Arrow batches writes to the current database, and a
// transaction may write to one alone. So the views are made by another session,
// in a database in memory that lives for as long as the scan.
func (s *staged) scan(ctx context.Context, e *engine, want *arrow.Schema, names []string, use func(from string) error) (err error) {
	e.stages++
	stage := fmt.Sprintf("penstock_stage_%d", e.stages)
	for _, q := range []string{"ATTACH ':memory:' AS " + stage, "USE " + stage} {
		if err := e.stage.exec(ctx, q); err != nil {
			return fmt.Errorf("stage %s: %w", s.Name, err)
		}
	}
	var bound []func()
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, e.stage.exec(ctx, "USE memory"), e.stage.exec(ctx, "DETACH "+stage))
		for _, done := range bound {
			done()
		}
	}()
	selects := make([]string, 0, len(s.groups))
	for i, g := range s.groups {
		text, done, err := g.bind(e.stage, fmt.Sprintf("rows_%d", i), want, names)
		if err != nil {
			return fmt.Errorf("stage %s: %w", s.Name, err)
		}
		bound = append(bound, done)
		selects = append(selects, text+stage+fmt.Sprintf(".main.rows_%d", i))
	}
	return use("(" + strings.Join(selects, " UNION ALL ") + ")")
}

// bind registers the group's columns as a view, and returns a SELECT that casts
// them and wants but the view's full name.
func (g *group) bind(on *session, view string, want *arrow.Schema, names []string) (string, func(), error) {
	var index []int
	exprs := make([]string, len(names))
	for i, name := range names {
		to := lattice(want, name)
		at := g.schema.FieldIndices(name)
		if len(at) == 0 {
			exprs[i] = cast("NULL", schemas.Null, to) + " AS " + ident(name)
			continue
		}
		from := schemas.TypeOf(g.schema.Field(at[0]))
		if from.ID() != arrow.NULL {
			index = append(index, at[0])
		}
		exprs[i] = cast(ident(name), from, to) + " AS " + ident(name)
	}
	if len(index) == 0 {
		index = append(index, g.schema.FieldIndices(schemas.ColOrdinal)...) // a view needs a column
	}
	r := newReader(g, index)
	defer r.Release()
	var pinned runtime.Pinner
	for _, b := range g.batches {
		for _, c := range index {
			pin(&pinned, b.Column(c).Data())
		}
	}
	forget, err := on.arrow.RegisterView(r, view)
	if err != nil {
		pinned.Unpin()
		return "", nil, err
	}
	done := func() { forget(); pinned.Unpin() }
	return "SELECT " + strings.Join(exprs, ", ") + " FROM ", done, nil
}

// pin keeps the buffers of an array where they are, as the engine is about to
// store their addresses.
func pin(p *runtime.Pinner, a arrow.ArrayData) {
	for _, b := range a.Buffers() {
		if b != nil && b.Len() > 0 {
			p.Pin(&b.Bytes()[0])
		}
	}
	for _, c := range a.Children() {
		pin(p, c)
	}
}

// lattice is the type of a column of s; ordinals are in none.
func lattice(s *arrow.Schema, name string) arrow.DataType {
	if i := s.FieldIndices(name); len(i) > 0 {
		return schemas.TypeOf(s.Field(i[0]))
	}
	return schemas.Int64
}

// newReader streams some columns of a group's batches.
func newReader(g *group, index []int) array.RecordReader {
	fields := make([]arrow.Field, len(index))
	for i, c := range index {
		f := g.schema.Field(c)
		fields[i] = arrow.Field{Name: f.Name, Type: f.Type, Nullable: true}
	}
	schema := arrow.NewSchema(fields, nil)
	batches := make([]arrow.RecordBatch, len(g.batches))
	for i, b := range g.batches {
		columns := make([]arrow.Array, len(index))
		for j, c := range index {
			columns[j] = b.Column(c)
		}
		batches[i] = array.NewRecordBatch(schema, columns, b.NumRows())
		defer batches[i].Release()
	}
	r, err := array.NewRecordReader(schema, batches)
	if err != nil {
		panic(err) // the batches were made with this very schema
	}
	return r
}

// join widens the columns of s by those of t.
func (s *staged) join(columns *arrow.Schema) error {
	if s.Columns == nil {
		s.Columns = columns
		return nil
	}
	have := schemas.Table{Name: s.Name, Key: s.Key, Columns: s.Columns}
	p, err := load.Fit(have, schemas.Table{Name: s.Name, Key: s.Key, Columns: columns})
	if err != nil {
		return err
	}
	s.Columns = p.Table.Columns
	return nil
}
