package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

const (
	// rowID is the column that is the primary key of each table.
	rowID = "_penstock_id"
	// findIndex is the index with which a merge finds rows.
	findIndex = "_penstock_find"
	// pendingTable holds the changes of tables that a transaction has announced but not yet recorded. It has the
	// columns of [load.Changes].
	pendingTable = "_penstock_pending"
)

// Alter implements [sqlmerge.Session]. A separate session alters the table, because MySQL would otherwise commit this
// transaction.
func (s *session) Alter(ctx context.Context, a sqlmerge.Alteration) error {
	name := a.Table.Name
	switch {
	case !a.Create && len(a.Add)+len(a.Widen) == 0:
		return nil // only the mode or descriptions change
	case s.touched[escape(name)]:
		return sqlmerge.ErrLate
	}
	if name != load.State.Name && name != load.Changes.Name { // changes of these two tables are not recorded
		if err := s.announce(ctx, a.Changes()); err != nil {
			return err
		}
	}
	found, err := s.readObject(ctx, name)
	if err != nil {
		return err
	}
	live := found[name]
	if a.Create {
		return s.create(ctx, a.Table, live)
	}
	if live == nil {
		return fmt.Errorf("table %s does not exist", name)
	}
	return s.alter(ctx, a.Plan, live)
}

// create creates a table. The parameter `left` is the existing table of the same name, or nil. An earlier transaction
// that did not commit may have created this table. If the table has no rows, create drops it first; otherwise create
// returns an error.
func (s *session) create(ctx context.Context, t schemas.Table, left *sqlmerge.Object) error {
	place := s.b.Place(t.Name)
	if left != nil {
		used := false
		conn, err := s.b.changer(ctx)
		if err == nil {
			err = conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+place+")").Scan(&used)
		}
		if err != nil {
			return classify(err)
		}
		if used || left.View || left.Other != "" {
			return &load.ForeignChange{Table: t.Name, Diff: []string{"it was not made by penstock"}} // Invariant 16
		}
		if err := s.ddl(ctx, "DROP TABLE "+place); err != nil {
			return err
		}
	}
	defs := []string{rowID + " BIGINT NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY"}
	for _, f := range t.Columns.Fields() {
		defs = append(defs, sqlmerge.Definition(s.b, f.Name, schemas.TypeOf(f)))
	}
	if key := s.findKey(t); key != "" {
		defs = append(defs, "KEY "+findIndex+" "+key)
	}
	return s.ddl(ctx, "CREATE TABLE "+place+" ("+strings.Join(defs, ", ")+") ENGINE = InnoDB ROW_FORMAT = DYNAMIC"+s.charset())
}

// findKey returns the columns of the index findIndex, or "" if the table needs no such index.
func (s *session) findKey(t schemas.Table) string {
	columns := sqlmerge.FindColumns(t)
	if columns = columns[:min(len(columns), maxKeyColumns)]; len(columns) == 0 {
		return ""
	}
	out := make([]string, len(columns))
	for i, name := range columns {
		out[i] = sqlmerge.Ident(name)
		if s.b.Type(load.TypeOf(t.Columns, name)) == text {
			out[i] += prefix(len(columns))
		}
	}
	return "(" + strings.Join(out, ", ") + ")"
}

// alter adds and widens columns in one statement, and then converts the values in the wider columns. A column may exist
// already, because a transaction that did not commit has added it. Then alter changes its type.
func (s *session) alter(ctx context.Context, p load.Plan, live *sqlmerge.Object) error {
	var clauses []string
	reindex := false
	for _, f := range p.Add {
		verb := "ADD COLUMN "
		if _, left := live.Types[f.Name]; left {
			verb = "MODIFY COLUMN "
		}
		clauses = append(clauses, verb+sqlmerge.Definition(s.b, f.Name, schemas.TypeOf(f)))
	}
	find := sqlmerge.FindColumns(p.Table)
	for _, w := range p.Widen {
		to := schemas.TypeOf(w.Column)
		if live.Types[w.Column.Name] != s.b.Type(to) {
			clauses = append(clauses, "MODIFY COLUMN "+sqlmerge.Definition(s.b, w.Column.Name, to))
			reindex = reindex || slices.Contains(find, w.Column.Name)
		}
	}
	if reindex {
		clauses = append(clauses, "ADD KEY "+findIndex+" "+s.findKey(p.Table))
		err := s.Query(ctx, fmt.Sprintf("SELECT 1 FROM information_schema.statistics WHERE table_schema = %s AND table_name = %s AND index_name = %s LIMIT 1",
			s.b.Literal(s.b.database), s.b.Literal(escape(p.Table.Name)), s.b.Literal(findIndex)), func([]driver.Value) error {
			clauses = append([]string{"DROP KEY " + findIndex}, clauses...)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(clauses) > 0 {
		if err := s.ddl(ctx, "ALTER TABLE "+s.b.Place(p.Table.Name)+" "+strings.Join(clauses, ", ")); err != nil {
			return err
		}
	}
	for _, w := range p.Widen {
		if err := s.convert(ctx, p.Table.Name, w, live.Types[w.Column.Name] != s.b.Type(w.From)); err != nil {
			return err
		}
	}
	return nil
}

// convert gives the values of a widened column the form in which values of the new type are stored. MySQL has already
// converted the values to text. The statement that convert runs is part of the transaction. If a transaction that did
// not commit has widened the column before, the parameter `again` is true. In this case, the stored numbers may have
// more decimal places than the old type allows.
func (s *session) convert(ctx context.Context, table string, w load.Widening, again bool) error {
	to, column := schemas.TypeOf(w.Column), sqlmerge.Ident(w.Column.Name)
	if l, ok := to.(*arrow.ListType); ok && w.From.ID() == arrow.LIST {
		return sqlmerge.WidenLists(ctx, s, s.b, table, rowID, w, l)
	}
	expr := column
	switch from := w.From.(type) {
	case *arrow.Int64Type:
		expr = "CAST(CAST(" + column + " AS DECIMAL(65,30)) AS SIGNED)"
	case *arrow.Decimal128Type:
		expr = "CAST(" + column + " AS " + s.b.Type(from) + ")"
	}
	_, isJSON := to.(*schemas.JSONType)
	same := to.ID() == arrow.DECIMAL128
	if id := w.From.ID(); id == arrow.INT64 || id == arrow.DECIMAL128 {
		same = same || !again
	} else {
		expr, same = column, same || id == arrow.LIST && isJSON || id == arrow.FLOAT64 || id == arrow.DATE32 && !isJSON
	}
	if same {
		return nil
	}
	return s.Exec(ctx, fmt.Sprintf("UPDATE %s SET %s = %s WHERE %[2]s IS NOT NULL", s.b.Place(table), column, s.b.Cast(expr, w.From, to)))
}

// View implements [sqlmerge.Session].
func (s *session) View(ctx context.Context, v sqlmerge.View) error {
	if v.Query == "" {
		return s.ddl(ctx, "DROP VIEW IF EXISTS "+s.b.Place(v.Name))
	}
	visible, err := s.readObject(ctx, v.Name)
	if err := errors.Join(err, s.hidePending(ctx, visible)); err != nil {
		return err
	}
	if visible[v.Name] == nil {
		if err := s.announce(ctx, []load.Change{{Table: v.Name, Action: load.ActionView}}); err != nil {
			return err
		}
	}
	return s.ddl(ctx, "CREATE OR REPLACE VIEW "+s.b.Place(v.Name)+" AS "+v.Query)
}

// ddl runs a statement that MySQL commits at once. It uses a separate session.
func (s *session) ddl(ctx context.Context, query string) error {
	if err := s.b.Step("alter"); err != nil {
		return err
	}
	conn, err := s.b.changer(ctx)
	if err == nil {
		query, _ = translate(query)
		_, err = conn.ExecContext(ctx, query)
	}
	return classify(err)
}

// announce stores in pendingTable the changes that the transaction will make to tables. It commits these rows at once.
func (s *session) announce(ctx context.Context, changes []load.Change) error {
	if err := s.b.Step("announce"); err != nil {
		return err
	}
	if len(s.pending) == 0 {
		if err := s.ddl(ctx, "CREATE TABLE IF NOT EXISTS "+s.b.Place(pendingTable)+" LIKE "+s.b.Place(load.Changes.Name)); err != nil {
			return err
		}
	}
	changes = slices.DeleteFunc(changes, func(c load.Change) bool {
		return !slices.Contains([]string{load.ActionCreate, load.ActionAdd, load.ActionWiden, load.ActionView}, c.Action)
	})
	s.pending = append(s.pending, changes...)
	rows := make([]string, len(changes))
	for i, c := range changes {
		var values []string
		for _, text := range []string{c.Table, c.Column, c.Action, c.From, c.To} {
			values = append(values, s.b.Literal(text))
		}
		rows[i] = "(" + strings.Join(values, ", ") + ")"
	}
	return s.ddl(ctx, "INSERT INTO "+s.b.Place(pendingTable)+` ("table", "column", action, from_type, to_type) VALUES `+strings.Join(rows, ", "))
}

// hidePending hides the changes that were announced and not recorded. They belong to other transactions, which are open
// or did not commit. The changes of this transaction stay visible.
func (s *session) hidePending(ctx context.Context, all map[string]*sqlmerge.Object) error {
	err := s.Query(ctx, `SELECT "table", "column", action, from_type, to_type FROM `+s.b.Place(pendingTable), func(v []driver.Value) error {
		var c load.Change
		for i, p := range []*string{&c.Table, &c.Column, &c.Action, &c.From, &c.To} {
			*p, _ = v[i].(string)
		}
		o := all[c.Table]
		ours := slices.ContainsFunc(s.pending, func(p load.Change) bool {
			return p.Table == c.Table && p.Column == c.Column && p.Action == c.Action
		})
		if o == nil || ours {
			return nil
		}
		switch c.Action {
		case load.ActionCreate, load.ActionView:
			if o.View == (c.Action == load.ActionView) {
				delete(all, c.Table)
			}
		case load.ActionAdd:
			delete(o.Types, c.Column)
		case load.ActionWiden:
			from, err := schemas.ParseTypeName(c.From)
			if err != nil {
				return err
			}
			if to, err := schemas.ParseTypeName(c.To); err == nil && o.Types[c.Column] == s.b.Type(to) {
				o.Types[c.Column] = s.b.Type(from)
			}
		}
		return nil
	})
	if number(err) == errNoTable {
		return nil
	}
	return err
}

// forgetPending deletes the announced changes, because the transaction has recorded them.
func (s *session) forgetPending(ctx context.Context) error {
	if len(s.pending) == 0 {
		return nil
	}
	or := make([]string, len(s.pending))
	for i, c := range s.pending {
		or[i] = fmt.Sprintf(`"table" = %s AND "column" = %s AND action = %s`, s.b.Literal(c.Table), s.b.Literal(c.Column), s.b.Literal(c.Action))
	}
	return s.Exec(ctx, "DELETE FROM "+s.b.Place(pendingTable)+" WHERE "+strings.Join(or, " OR "))
}
