package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Columns is the default limit of a stream's columns. A row of Postgres has 8,160 bytes. Long values are stored
// elsewhere, but each takes 18 bytes in the row.
const Columns = 400

// maxColumns is Postgres's limit of columns per table. It includes dropped columns.
const maxColumns = 1600

// carryOut creates or alters a table as planned, and records the changes.
func (m *merge) carryOut(c *catalog, p load.Plan) error {
	if n := p.Table.Columns.NumFields(); n > maxColumns {
		return fmt.Errorf("it needs %d columns, and Postgres allows %d in a table; lower max_columns of the stream, or leave out columns with select or drop", n, maxColumns)
	}
	var err error
	if p.Create {
		err = m.create(p.Table)
	} else {
		err = m.alter(c, p)
	}
	if err != nil {
		return err
	}
	if err := m.comment(p); err != nil {
		return err
	}
	return m.record(p.Changes())
}

func (m *merge) create(t schemas.Table) error {
	defs := make([]string, 0, t.Columns.NumFields()+1)
	for _, f := range t.Columns.Fields() {
		defs = append(defs, m.db.definition(t, f))
	}
	if unique(t) {
		defs = append(defs, "PRIMARY KEY ("+idents(load.FullKey(t))+")")
	}
	if err := m.s.run(m.ctx, "CREATE TABLE "+m.db.place(t.Name)+" ("+strings.Join(defs, ", ")+")"); err != nil {
		return err
	}
	return m.index(t)
}

// index creates the indexes by which a merge finds rows. The primary key is not among them.
func (m *merge) index(t schemas.Table) error {
	table, owner := m.db.place(t.Name), ""
	if load.Shared(t.Columns) {
		owner = ident(schemas.ColSource) + ", "
	}
	switch {
	case load.IsInternal(t.Name):
		return nil
	case load.Child(t.Columns) && keyLinks(t):
		return nil
	case load.Child(t.Columns):
		return m.s.run(m.ctx, "CREATE INDEX ON "+table+" ("+owner+ident(load.RootKeyColumn(t.Columns))+")")
	case len(t.Key) == 0:
		return m.s.run(m.ctx, "CREATE INDEX ON "+table+" ("+owner+ident(schemas.ColHash)+")")
	case unique(t):
		return nil
	}
	if err := m.s.run(m.ctx, "CREATE INDEX ON "+table+" ("+owner+idents(t.Key)+")"); err != nil || t.Mode != schemas.History {
		return err
	}
	return m.s.run(m.ctx, "CREATE UNIQUE INDEX ON "+table+" ("+owner+idents(t.Key)+") WHERE "+ident(schemas.ColValidTo)+" IS NULL")
}

// keyLinks reports whether the index of the primary key finds the child rows of a record.
func keyLinks(t schemas.Table) bool { return unique(t) && t.Key[0] == load.RootKeyColumn(t.Columns) }

// definition returns a column definition for CREATE TABLE or ALTER TABLE. In penstock's own tables, JSON has the type
// json, which keeps its spelling.
func (d *DB) definition(t schemas.Table, f arrow.Field) string {
	if load.IsInternal(t.Name) && schemas.SameType(schemas.TypeOf(f), schemas.JSON) {
		return ident(f.Name) + " json"
	}
	return ident(f.Name) + " " + d.sqlType(schemas.TypeOf(f))
}

// alter adds and widens columns. Views on a widened column are dropped before and created again afterwards.
func (m *merge) alter(c *catalog, p load.Plan) error {
	table := m.db.place(p.Table.Name)
	var actions []string
	for _, f := range p.Add {
		actions = append(actions, "ADD COLUMN "+m.db.definition(p.Table, f))
	}
	var widened []string
	for _, w := range p.Widen {
		to := schemas.TypeOf(w.Column)
		widened = append(widened, w.Column.Name)
		actions = append(actions, "ALTER COLUMN "+ident(w.Column.Name)+" TYPE "+m.db.sqlType(to)+" USING "+m.db.cast(ident(w.Column.Name), w.From, to))
	}
	if actions != nil {
		err := m.withoutViews(p.Table.Name, widened, func() error {
			return m.s.run(m.ctx, "ALTER TABLE "+table+" "+strings.Join(actions, ", "))
		})
		if err != nil {
			return err
		}
	}
	if p.ChangesMode() {
		return m.turn(c, p)
	}
	return nil
}

// turn changes the rows and indexes of a table for its new mode.
func (m *merge) turn(c *catalog, p load.Plan) error {
	t := p.Table
	table := m.db.place(t.Name)
	was := t
	was.Mode = p.OldMode
	if unique(was) && !unique(t) {
		if err := m.dropKey(t); err != nil {
			return err
		}
	}
	switch t.Mode {
	case schemas.History:
		err := m.s.run(m.ctx, fmt.Sprintf("UPDATE %s SET %s = %s, %s = %s", table,
			ident(schemas.ColValidFrom), ident(schemas.ColSyncedAt), ident(schemas.ColValidTo), ident(schemas.ColDeletedAt)))
		if err != nil {
			return err
		}
	case schemas.Replace:
		if err := m.s.run(m.ctx, "DELETE FROM "+table+" WHERE "+ident(schemas.ColDeletedAt)+" IS NOT NULL"); err != nil {
			return err
		}
	}
	if load.Child(t.Columns) && !keyLinks(was) || len(t.Key) == 0 || unique(t) {
		return nil
	}
	return m.index(t)
}

// dropKey drops the primary key constraint.
func (m *merge) dropKey(t schemas.Table) error {
	names, err := m.s.strings(m.ctx, "SELECT conname FROM pg_catalog.pg_constraint WHERE contype = 'p' AND conrelid = "+literal(m.db.place(t.Name))+"::regclass")
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := m.s.run(m.ctx, "ALTER TABLE "+m.db.place(t.Name)+" DROP CONSTRAINT "+ident(name)); err != nil {
			return fmt.Errorf("drop the primary key, because mode %s keeps several rows per key: %w", t.Mode, err)
		}
	}
	return nil
}

// comment sets the comments on a new table, on new columns, and on columns with a new description. A comment says
// where the content of the table or column comes from. It does not replace comments that users have written.
func (m *merge) comment(p load.Plan) error {
	table := m.db.place(p.Table.Name)
	theirs, err := m.comments(p)
	if err != nil {
		return err
	}
	var all []string
	if of := m.recordsOf(p.Table); (p.Create || p.Description != "") && load.OwnComment(theirs[""], of) {
		all = append(all, "COMMENT ON TABLE "+table+" IS "+literal(load.Comment(load.TableDescription(p.Table.Columns), of)))
	}
	for _, f := range slices.Concat(p.Add, p.Describe) {
		from := schemas.Source(f)
		if from == "" {
			from = schemas.Meaning(f.Name)
		}
		if text := load.Comment(schemas.DescriptionOf(f), from); text != "" && load.OwnComment(theirs[f.Name], from) {
			all = append(all, "COMMENT ON COLUMN "+table+"."+ident(f.Name)+" IS "+literal(text))
		}
	}
	return m.s.run(m.ctx, strings.Join(all, "; "))
}

// recordsOf describes the rows of a table, for the table's comment: "records of crm.leads". For a child table, it is
// "/emails of the records of crm.leads".
func (m *merge) recordsOf(t schemas.Table) string {
	of := "records of " + m.key.Stream
	if at := load.SourcePointer(t.Columns); at != "" {
		return at + " of the " + of
	} else if load.Child(t.Columns) {
		return "part of the " + of
	}
	return of
}

// comments returns the comments of a table by column, if the plan changes descriptions. The comment on the table
// itself has the key "".
func (m *merge) comments(p load.Plan) (map[string]string, error) {
	if p.Create || len(p.Describe) == 0 && p.Description == "" {
		return nil, nil
	}
	all := map[string]string{}
	query := `SELECT coalesce(a.attname, ''), d.description FROM pg_catalog.pg_description d
		LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid AND a.attnum > 0
		WHERE d.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objoid = ` + literal(m.db.place(p.Table.Name)) + "::pg_catalog.regclass"
	err := m.s.query(m.ctx, query, func(v [][]byte) error {
		all[string(v[0])] = string(v[1])
		return nil
	})
	return all, err
}

// record stores changes in the table that [DB.readChanges] reads. All changes of a transaction have the same time,
// which is later than the times of all earlier changes.
func (x *tx) record(ctx context.Context, changes []load.Change) error {
	if len(changes) == 0 {
		return nil
	}
	if x.changeTime.IsZero() {
		var last int64
		err := x.s.numbers(ctx, "SELECT coalesce((pg_catalog.date_part('epoch', max(at)) * 1000000)::bigint, 0) FROM "+x.db.place(load.Changes.Name), &last)
		if err != nil {
			return x.db.recheckTables(err)
		}
		x.changeTime = time.UnixMicro(max(x.of.Time().UnixMicro(), last+1))
	}
	rows := make([]string, len(changes))
	for i := range changes {
		c := &changes[i]
		c.At = x.changeTime
		values := []string{timestamp(c.At)}
		for _, text := range []string{x.of.Run, c.Table, c.Column, c.Source, c.Action, c.From, c.To, c.Reason} {
			values = append(values, literal(text))
		}
		rows[i] = "(" + strings.Join(values, ", ") + ")"
	}
	return x.s.run(ctx, "INSERT INTO "+x.db.place(load.Changes.Name)+` (at, run, "table", "column", source, action, from_type, to_type, reason) VALUES `+strings.Join(rows, ", "))
}

func (m *merge) record(changes []load.Change) error { return m.tx.record(m.ctx, changes) }
