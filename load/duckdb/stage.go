//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// group holds consecutive batches of one schema.
type group struct {
	schema  *arrow.Schema
	batches []arrow.RecordBatch
}

// groupsOf returns all batches of s in their order, in as few groups as possible.
func groupsOf(s *load.Staged) []*group {
	var out []*group
	for _, b := range s.Batches {
		if n := len(out); n == 0 || !out[n-1].schema.Equal(b.Schema()) {
			out = append(out, &group{schema: b.Schema()})
		}
		last := out[len(out)-1]
		last.batches = append(last.batches, b)
	}
	return out
}

// Stage implements [sqlmerge.Session]. The callback gets an item for a FROM clause of an SQL statement. The statement
// must read all columns of this item. Otherwise the engine returns the wrong columns.
//
// Registering a view of Arrow batches writes to the current database, and a transaction may write to only one database.
// So another session creates the views, in an in-memory database that exists until the callback returns.
func (t *transaction) Stage(ctx context.Context, s *load.Staged, columns *arrow.Schema, names []string, use func(from string) error) (err error) {
	e := t.engine
	e.stages++
	stage := fmt.Sprintf("penstock_stage_%d", e.stages)
	for _, q := range []string{"ATTACH ':memory:' AS " + stage, "USE " + stage} {
		if err := e.stage.Exec(ctx, q); err != nil {
			return fmt.Errorf("stage %s: %w", s.Name, err)
		}
	}
	var bound []func()
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, e.stage.Exec(ctx, "USE memory"), e.stage.Exec(ctx, "DETACH "+stage))
		for _, done := range bound {
			done()
		}
	}()
	var selects []string
	for i, g := range groupsOf(s) {
		text, done, err := g.bind(e.stage, fmt.Sprintf("rows_%d", i), columns, names)
		if err != nil {
			return fmt.Errorf("stage %s: %w", s.Name, err)
		}
		bound = append(bound, done)
		selects = append(selects, text+stage+fmt.Sprintf(".main.rows_%d", i))
	}
	return use("(" + strings.Join(selects, " UNION ALL ") + ")")
}

// Insert implements [sqlmerge.Session].
func (t *transaction) Insert(ctx context.Context, i sqlmerge.Insertion) error {
	names := load.Names(i.Table.Columns)
	scanned, chosen, validFrom := names, "", "r."+schemas.ColSyncedAt
	switch {
	case i.Valid:
		chosen, validFrom = " JOIN ("+i.Chosen+") AS s ON s.o = r."+schemas.ColOrdinal, "s.f"
	case i.Chosen != "":
		chosen = " WHERE r." + schemas.ColOrdinal + " IN (" + i.Chosen + ")"
	}
	if chosen != "" {
		scanned = append(slices.Clone(names), schemas.ColOrdinal)
	}
	values := make([]string, len(names))
	for c, name := range names {
		values[c] = "r." + sqlmerge.Ident(name)
		if name == schemas.ColValidFrom && i.Table.Mode == schemas.History {
			values[c] = validFrom
		}
	}
	return t.Stage(ctx, i.Staged, i.Table.Columns, scanned, func(from string) error {
		return t.Exec(ctx, fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s AS r%s",
			dialect{}.Place(i.Table.Name), sqlmerge.Idents(names), strings.Join(values, ", "), from, chosen))
	})
}

// bind registers the group's columns as a view, and returns a SELECT that casts the columns. The SELECT ends with FROM,
// and the caller appends the full name of the view. The returned function removes the view. The caller calls it after
// the last use of the view.
func (g *group) bind(on *session, view string, want *arrow.Schema, names []string) (string, func(), error) {
	var index []int
	exprs := make([]string, len(names))
	for i, name := range names {
		to := load.TypeOf(want, name)
		at := g.schema.FieldIndices(name)
		if len(at) == 0 {
			exprs[i] = cast("NULL", schemas.Null, to) + " AS " + sqlmerge.Ident(name)
			continue
		}
		from := schemas.TypeOf(g.schema.Field(at[0]))
		if from.ID() != arrow.NULL {
			index = append(index, at[0])
		}
		exprs[i] = cast(sqlmerge.Ident(name), from, to) + " AS " + sqlmerge.Ident(name)
	}
	if len(index) == 0 {
		index = append(index, g.schema.FieldIndices(schemas.ColOrdinal)...) // a view needs at least one column
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

// pin keeps the buffers of an array in place, because the engine stores their addresses.
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

// newReader returns a reader of some columns of the group's batches.
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
		panic(err) // cannot happen: the batches have this schema
	}
	return r
}
