//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// catalog describes some tables, both as penstock has recorded them and as they are in the file.
type catalog struct {
	made  map[string]schemas.Table
	views map[string]bool // names of the views that penstock made
	live  map[string]*object
}

// object is a table or a view in the file.
type object struct {
	view     bool
	types    map[string]string // by column
	required []string          // columns that are NOT NULL and have no default
}

// readCatalog reads the named tables and their children. A transaction that has changed tables must set fresh to
// bypass the cache.
func readCatalog(ctx context.Context, s *session, names []string, fresh bool) (*catalog, error) {
	live, err := s.engine.objects(ctx, s, fresh)
	if err != nil {
		return nil, fmt.Errorf("read the database's catalog: %w", err)
	}
	c := &catalog{live: live}
	var changes []load.Change
	if c.live[load.Changes.Name] != nil {
		if changes, err = readChanges(ctx, s, names); err != nil {
			return nil, fmt.Errorf("read %s: %w", load.Changes.Name, err)
		}
	}
	c.views = load.Views(changes)
	if c.made, err = load.Replay(changes); err != nil {
		return nil, err
	}
	if c.live[load.Changes.Name] != nil && slices.Contains(names, load.Changes.Name) {
		c.made[load.Changes.Name] = load.Changes // changes to this table itself are not recorded
	}
	return c, nil
}

// objects returns all tables and views of the file. It reads them once after the file was attached, because no other
// process can change the file then. If fresh is set, it reads them again.
func (e *engine) objects(ctx context.Context, s *session, fresh bool) (map[string]*object, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known != nil && !fresh {
		return e.known, nil
	}
	all, err := readObjects(ctx, s)
	if err == nil && !fresh {
		e.known = all
	}
	return all, err
}

// forgetObjects clears the cache. It is called after the file was attached or its tables changed.
func (e *engine) forgetObjects() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known = nil
}

func readObjects(ctx context.Context, s *session) (map[string]*object, error) {
	all := map[string]*object{}
	query := "SELECT table_name, column_name, data_type, NOT is_nullable AND column_default IS NULL FROM duckdb_columns() " +
		"WHERE database_name = 'db' AND schema_name = 'main'" +
		" UNION ALL SELECT view_name, NULL, NULL, NULL FROM duckdb_views() " +
		"WHERE database_name = 'db' AND schema_name = 'main'"
	err := s.query(ctx, query, func(v []driver.Value) error {
		name := v[0].(string)
		o := all[name]
		if o == nil {
			o = &object{types: map[string]string{}}
			all[name] = o
		}
		if v[1] == nil {
			o.view = true
			return nil
		}
		column := v[1].(string)
		o.types[column] = v[2].(string)
		if required, _ := v[3].(bool); required {
			o.required = append(o.required, column)
		}
		return nil
	})
	return all, err
}

func readChanges(ctx context.Context, s *session, names []string) (changes []load.Change, err error) {
	query := `SELECT "at", "table", "column", source, action, from_type, to_type FROM ` + place(load.Changes.Name) +
		" WHERE action = " + literal(load.ActionView) + " OR " + family(`"table"`, names)
	err = s.query(ctx, query, func(v []driver.Value) error {
		var c load.Change
		c.At, _ = v[0].(time.Time)
		for i, p := range []*string{&c.Table, &c.Column, &c.Source, &c.Action, &c.From, &c.To} {
			*p, _ = v[i+1].(string)
		}
		changes = append(changes, c)
		return nil
	})
	return changes, err
}

// family returns the condition that the column holds one of the given names of tables, or the name of a child table of
// one of these tables.
func family(column string, names []string) string {
	or := make([]string, 0, 2*len(names))
	for _, n := range names {
		or = append(or, column+" = "+literal(n), "starts_with("+column+", "+literal(n+"__")+")")
	}
	return "(" + strings.Join(or, " OR ") + ")"
}

// userColumns returns the names of the columns of a table that penstock did not make.
func (c *catalog) userColumns(t schemas.Table) []string {
	var out []string
	if o := c.live[t.Name]; o != nil {
		for name := range o.types {
			if !t.Columns.HasField(name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// checkNames returns an error if a column that the plan adds needs the name of a column that penstock did not make.
// Like DuckDB, it ignores case in names.
// Invariant 16
func (c *catalog) checkNames(p load.Plan) error {
	return load.CheckNewColumns(p, func(column string) string {
		for name := range c.live[p.Table.Name].types {
			if strings.EqualFold(name, column) {
				return name
			}
		}
		return ""
	})
}

// table returns the named table as penstock has recorded it, or a table without columns if penstock never made it. It
// returns an error if the table was changed by hand. // Invariant 16
func (c *catalog) table(name string) (schemas.Table, error) {
	t, o := c.made[name], c.live[name]
	if o == nil {
		return t, nil // never made, or dropped: Apply recreates it
	}
	if err := c.usable(name); err != nil {
		return t, err
	}
	return t, load.Compare(name, typesOf(t), o.types)
}

// typesOf returns the column types of a table as penstock made them.
func typesOf(t schemas.Table) map[string]string {
	types := map[string]string{}
	for _, f := range t.Columns.Fields() {
		types[f.Name] = sqlType(schemas.TypeOf(f))
	}
	return types
}

// usable returns an error if rows cannot be written to the named table at all.
func (c *catalog) usable(name string) error {
	t, known := c.made[name]
	o := c.live[name]
	switch {
	case o.view:
		return &load.ForeignChange{Table: name, Diff: []string{"a view has its name"}}
	case !known:
		return &load.ForeignChange{Table: name, Diff: []string{"it was not made by penstock"}}
	}
	for _, column := range o.required {
		if !t.Columns.HasField(column) {
			return &load.ForeignChange{Table: name, Diff: []string{fmt.Sprintf("column %q requires a value in every row", column)}}
		}
	}
	return nil
}

// carryOut creates or alters a table as planned.
func carryOut(ctx context.Context, s *session, p load.Plan) error {
	table := place(p.Table.Name)
	if p.Create {
		return s.exec(ctx, createSQL(p.Table))
	}
	for _, f := range p.Add {
		// The column gets no default: a function in a default would break the replay of the log.
		if err := s.exec(ctx, "ALTER TABLE "+table+" ADD COLUMN "+definition(f)); err != nil {
			return err
		}
	}
	for _, w := range p.Widen {
		to := schemas.TypeOf(w.Column)
		q := "ALTER TABLE " + table + " ALTER " + ident(w.Column.Name) + " TYPE " + sqlType(to) +
			" USING " + cast(ident(w.Column.Name), w.From, to)
		if err := s.exec(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func createSQL(t schemas.Table) string {
	defs := make([]string, 0, t.Columns.NumFields())
	for _, f := range t.Columns.Fields() {
		def := definition(f)
		if f.Name == schemas.ColHash && !load.Child(t.Columns) {
			def += " USING COMPRESSION uncompressed" // hashes are all different: compression costs more than it saves
		}
		defs = append(defs, def)
	}
	return "CREATE TABLE " + place(t.Name) + " (" + strings.Join(defs, ", ") + ")"
}

func definition(f arrow.Field) string { return ident(f.Name) + " " + sqlType(schemas.TypeOf(f)) }

// changeRecorder records what one transaction changes in tables. All these changes get one time, which is later than
// those of earlier changes, because changes are replayed in the order of their times.
type changeRecorder struct {
	s  *session
	of load.Pass
	at time.Time
}

// record stores changes where [readChanges] finds them, and sets their time.
func (a *changeRecorder) record(ctx context.Context, changes []load.Change) error {
	if len(changes) == 0 {
		return nil
	}
	if a.at.IsZero() {
		if err := a.begin(ctx); err != nil {
			return err
		}
	}
	rows := make([]string, len(changes))
	for i, c := range changes {
		changes[i].At = a.at
		values := []string{timestamp(a.at)}
		for _, text := range []string{a.of.Run, c.Table, c.Column, c.Source, c.Action, c.From, c.To, c.Reason} {
			values = append(values, literal(text))
		}
		rows[i] = "(" + strings.Join(values, ", ") + ")"
	}
	return a.s.exec(ctx, "INSERT INTO "+place(load.Changes.Name)+" VALUES "+strings.Join(rows, ", "))
}

func (a *changeRecorder) begin(ctx context.Context) error {
	a.at = a.of.Time()
	return a.s.query(ctx, `SELECT max("at") FROM `+place(load.Changes.Name), func(v []driver.Value) error {
		if last, ok := v[0].(time.Time); ok && !a.at.After(last) {
			a.at = last.Add(time.Microsecond)
		}
		return nil
	})
}
