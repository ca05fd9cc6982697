package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/postgres/codec"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// stagedIn is a temporary table with staged rows.
const stagedIn = "pg_temp.penstock_rows"

// temporary returns SQL that creates a temporary table, which exists until the transaction ends. If a table of that
// name exists from an earlier statement, the SQL drops it first. The definition is a list of columns, or AS and a
// query.
func temporary(name, definition string) string {
	drop := "DROP TABLE IF EXISTS " + name + "; CREATE TEMP TABLE " + name + " "
	if strings.HasPrefix(definition, "AS ") {
		return drop + "ON COMMIT DROP " + definition
	}
	return drop + definition + " ON COMMIT DROP"
}

// Stage implements [sqlmerge.Session].
func (t *transaction) Stage(ctx context.Context, staged *load.Staged, columns *arrow.Schema, names []string, use func(from string) error) error {
	sources := make([]codec.Column, len(names))
	for i, name := range names {
		sources[i] = codec.Column{From: name, To: load.TypeOf(columns, name)}
	}
	if err := t.stage(ctx, rows{staged: staged, table: staged.Name}, sources); err != nil {
		return err
	}
	return use(stagedIn)
}

// Insert implements [sqlmerge.Session].
func (t *transaction) Insert(ctx context.Context, i sqlmerge.Insertion) error {
	if load.IsInternal(i.Table.Name) {
		if err := t.b.Step("ledger"); err != nil {
			return err
		}
	}
	r, err := t.chosen(ctx, i)
	if err != nil {
		return err
	}
	var columns []string
	var sources []codec.Column
	for _, f := range i.Table.Columns.Fields() {
		from := f.Name
		if i.Table.Mode == schemas.History {
			switch f.Name {
			case schemas.ColValidTo:
				continue
			case schemas.ColValidFrom:
				if r.begins == nil {
					from = schemas.ColSyncedAt
				}
			}
		}
		columns, sources = append(columns, f.Name), append(sources, codec.Column{From: from, To: schemas.TypeOf(f)})
	}
	n, err := t.copy(ctx, "COPY "+t.b.Place(i.Table.Name)+" ("+idents(columns)+")", r, sources)
	if err != nil {
		return err
	}
	t.count(i.Table, n)
	return t.writeRejects(ctx)
}

// Upsert implements [sqlmerge.Keyed]. It replaces only rows that differ.
func (t *transaction) Upsert(ctx context.Context, i sqlmerge.Insertion, want int64) error {
	internal, where := load.IsInternal(i.Table.Name), ""
	first, second := "copy", "merge"
	if internal {
		first, second = "ledger", ""
	} else {
		hash, deleted := schemas.ColHash, schemas.ColDeletedAt
		where = " WHERE t." + hash + " IS DISTINCT FROM excluded." + hash + " OR t." + deleted + " IS NOT NULL"
	}
	if err := t.b.Step(first); err != nil {
		return err
	}
	if internal && i.Staged.Rows <= fewRows {
		return t.upsertFew(ctx, i)
	}
	r, err := t.chosen(ctx, i)
	if err != nil {
		return err
	}
	if err := t.stage(ctx, r, wholeRows(i.Table)); err != nil {
		return err
	}
	if second != "" {
		if err := t.b.Step(second); err != nil {
			return err
		}
	}
	done, err := t.affect(ctx, upsertSQL(t.b.dialect, i.Table, stagedIn, where))
	if err != nil {
		return err
	}
	if want >= 0 && done != want {
		return retryable{fmt.Errorf("expected to change %d rows, changed %d: another session changed the table meanwhile", want, done)}
	}
	t.count(i.Table, done)
	return t.writeRejects(ctx)
}

// count counts rows that were written to a table.
func (t *transaction) count(table schemas.Table, rows int64) {
	if t.written == nil {
		t.written = map[string]writtenRows{}
	}
	t.written[table.Name] = writtenRows{table, t.written[table.Name].rows + rows}
}

// wholeRows returns the columns of a table's rows as they are sent to the server. The last column is the ordinal, by
// which the server orders rows with the same key.
func wholeRows(t schemas.Table) []codec.Column {
	var sources []codec.Column
	for _, f := range t.Columns.Fields() {
		sources = append(sources, codec.Column{From: f.Name, To: schemas.TypeOf(f)})
	}
	return append(sources, codec.Column{From: schemas.ColOrdinal, To: schemas.Int64})
}

// upsertSQL returns the statement that writes rows to t. If several rows have the same key, it writes the last one. The
// parameter where is a WHERE clause that selects the existing rows to replace; "" selects all.
func upsertSQL(sql dialect, table schemas.Table, from, where string) string {
	names := load.Names(table.Columns)
	set := make([]string, 0, len(names))
	for _, name := range names {
		set = append(set, ident(name)+" = excluded."+ident(name))
	}
	return fmt.Sprintf("INSERT INTO %s AS t (%s) SELECT DISTINCT ON (%s) %s FROM %s ORDER BY %s, %s DESC ON CONFLICT (%s) DO UPDATE SET %s%s",
		sql.Place(table.Name), idents(names), idents(table.Key), idents(names), from, idents(table.Key), schemas.ColOrdinal, idents(load.FullKey(table)), strings.Join(set, ", "), where)
}

// fewRows is the greatest number of rows that are written without a temporary table. Creating and dropping a
// temporary table costs far more than writing a few rows, and leaves dead rows in the server's catalog.
const fewRows = 256

// upsertFew writes a few rows to one of penstock's own tables, without a temporary table.
func (t *transaction) upsertFew(ctx context.Context, i sqlmerge.Insertion) error {
	sources := wholeRows(i.Table)
	types, err := t.typesOf(ctx, i.Table.Name)
	if err != nil {
		return err
	}
	c := &codec.Copier{Staged: i.Staged, Columns: sources, JSONB: isJSONB(types)}
	rows, err := c.Rows()
	if err != nil {
		return err
	}
	var all []string
	var values [][]byte
	for _, row := range rows {
		cells := make([]string, len(sources))
		for n, v := range row {
			values = append(values, v)
			cells[n] = fmt.Sprintf("$%d::%s", len(values), t.typeOf(types, sources[n]))
		}
		all = append(all, "("+strings.Join(cells, ", ")+")")
	}
	names := make([]string, len(sources))
	for n, s := range sources {
		names[n] = s.From
	}
	return t.execParams(ctx, upsertSQL(t.b.dialect, i.Table, "(VALUES "+strings.Join(all, ", ")+") AS s ("+idents(names)+")", ""), values)
}

// rows are the staged rows that are sent to the server.
type rows struct {
	staged *load.Staged
	table  string
	subset *codec.Ordinals // ordinals of the rows to send; nil: all rows
	begins map[int64]int64 // by ordinal: when the row becomes valid, in microseconds; nil: the row's synced_at
	report *schemas.Table  // if a value cannot be stored, the reject names this table; nil: no rejects
}

// chosen returns the staged rows that an insertion writes.
func (t *transaction) chosen(ctx context.Context, i sqlmerge.Insertion) (r rows, err error) {
	r = rows{staged: i.Staged, table: i.Table.Name, report: &i.Table}
	if i.Chosen == "" {
		return r, nil
	}
	query, all := "SELECT o FROM ("+i.Chosen+") AS c", []int64(nil)
	if i.Valid {
		query, r.begins = "SELECT o, "+t.b.Micros("f")+" FROM ("+i.Chosen+") AS c", map[int64]int64{}
	}
	err = t.query(ctx, query, func(v [][]byte) error {
		o, err := strconv.ParseInt(string(v[0]), 10, 64)
		all = append(all, o)
		if r.begins != nil && err == nil {
			r.begins[o], err = strconv.ParseInt(string(v[1]), 10, 64)
		}
		return err
	})
	r.subset = codec.NewOrdinals(all)
	return r, err
}

// stage copies columns of rows into a temporary table.
func (t *transaction) stage(ctx context.Context, r rows, sources []codec.Column) error {
	types, err := t.typesOf(ctx, r.table)
	if err != nil {
		return err
	}
	defs := make([]string, len(sources))
	for i, s := range sources {
		defs[i] = ident(s.From) + " " + t.typeOf(types, s)
	}
	if err := t.run(ctx, temporary(stagedIn, "("+strings.Join(defs, ", ")+")")); err != nil {
		return err
	}
	_, err = t.copy(ctx, "COPY "+stagedIn, r, sources)
	return err
}

// copy sends columns of rows to the server.
func (t *transaction) copy(ctx context.Context, sql string, r rows, sources []codec.Column) (int64, error) {
	types, err := t.typesOf(ctx, r.table)
	if err != nil {
		return 0, err
	}
	c := &codec.Copier{Staged: r.staged, Columns: sources, Subset: r.subset, Begins: r.begins, JSONB: isJSONB(types)}
	t.rejects = nil
	if r.report != nil && t.of != nil && !load.IsInternal(r.table) {
		c.Report = func(b arrow.RecordBatch, column string, row int, raw, reason string) { // Invariant 11
			t.rejects = append(t.rejects, load.RejectOf(t.of.key, t.of.pass, *r.report, b, column, row, raw, reason))
		}
	}
	n, err := t.copyIn(ctx, sql, c)
	return n, cmp.Or(c.Err(), err) // the error of the copier is the cause
}

// writeRejects writes the rejects of values that could not be stored unchanged.
func (t *transaction) writeRejects(ctx context.Context) error {
	if len(t.rejects) == 0 {
		return nil
	}
	b, err := load.Rows(load.Rejects, t.rejects...)
	if err != nil {
		return err
	}
	defer b.Release()
	t.rejects = nil
	stamped := load.WithSource(load.Rejects, b, t.of.key.Source)
	defer stamped.Release()
	i := sqlmerge.Insertion{Table: ownTable(load.Rejects, t.of.key.Source)}
	i.Staged = &load.Staged{Table: i.Table}
	defer i.Staged.Release()
	if err := i.Staged.Add(stamped); err != nil {
		return err
	}
	return t.Upsert(ctx, i, -1)
}

// typesOf returns the types of a table's columns, as Postgres names them.
func (t *transaction) typesOf(ctx context.Context, table string) (map[string]string, error) {
	if known := t.types[table]; known != nil {
		return known, nil
	}
	found, err := readObjects(ctx, t.session, t.b.schema, []string{table})
	if err != nil {
		return nil, err
	}
	t.remember(found)
	return t.types[table], nil
}

// isJSONB returns a function that reports whether a column has the type jsonb.
func isJSONB(types map[string]string) func(column string) bool {
	return func(column string) bool { return types[column] == "jsonb" }
}

// remember stores the types of columns.
func (t *transaction) remember(found map[string]*object) {
	if t.types == nil {
		t.types = map[string]map[string]string{}
	}
	for name, o := range found {
		t.types[name] = o.Types
	}
}

// typeOf returns the type with which a column is sent to the server. For a column of the table, this is the type that
// the column has in the table.
func (t *transaction) typeOf(types map[string]string, s codec.Column) string {
	if typ := types[s.From]; typ != "" {
		return typ
	}
	return t.b.Type(s.To)
}

// Objects implements [sqlmerge.Reader]. If it is not safe to write to a table, the returned object says why.
func (t *transaction) Objects(ctx context.Context, names []string) (map[string]*sqlmerge.Object, error) {
	found, err := readObjects(ctx, t.session, t.b.schema, names)
	if err != nil {
		return nil, err
	}
	t.remember(found)
	suspects := slices.DeleteFunc(slices.Sorted(maps.Keys(found)), func(name string) bool {
		return found[name].kind != "r" || !found[name].suspect || load.IsInternal(name)
	})
	if len(suspects) == 0 {
		return objectsOf(found), nil
	}
	reasons, err := foreign(ctx, t.session, t.b.schema, "c.relname IN ("+literals(suspects)+")")
	for name, why := range reasons {
		found[name].Unsafe = why
	}
	return objectsOf(found), err
}
