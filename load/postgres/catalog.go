package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// catalog describes some tables in two ways: as penstock has recorded them (made), and as they are in the database
// (live).
type catalog struct {
	db    *DB
	made  map[string]schemas.Table
	views map[string]bool // names of views that penstock made
	live  map[string]*object
}

// object is a table, a view or anything else with a name in the schema.
type object struct {
	kind     string            // as in pg_class.relkind: r for a table, v for a view
	columns  []string          // in the order of the table
	types    map[string]string // types by column
	required []string          // columns that are NOT NULL and have no default value
	unique   []string          // unique keys over all rows, in the form of [load.KeyName]
	suspect  bool              // another role may own the object or have attached something to it
}

// readCatalog reads the named tables and their child tables.
func (d *DB) readCatalog(ctx context.Context, s *session, names []string) (*catalog, error) {
	c := &catalog{db: d}
	var err error
	if c.live, err = d.readObjects(ctx, s, names); err != nil {
		return nil, fmt.Errorf("read the database's catalog: %w", err)
	}
	changes, err := d.readChanges(ctx, s, names)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", load.Changes.Name, err)
	}
	c.views = load.Views(changes)
	if c.made, err = load.Replay(changes); err != nil {
		return nil, err
	}
	for _, t := range load.OwnTables() {
		if slices.Contains(names, t.Name) {
			if o := c.live[t.Name]; o != nil && o.types[schemas.ColSource] != "" {
				t = load.ShareTable(t)
			}
			c.made[t.Name] = t
		}
	}
	return c, nil
}

// family returns the condition that the column has the name of a table: one of the given names, or the name of a
// child table or of a view of such a table.
func family(column string, names []string) string {
	or := make([]string, 0, 3*len(names))
	for _, n := range names {
		or = append(or, column+" = "+literal(n), column+" = "+literal(n+currentSuffix), "pg_catalog.starts_with("+column+", "+literal(n+"__")+")")
	}
	if or == nil {
		return "false"
	}
	return "(" + strings.Join(or, " OR ") + ")"
}

// relations returns the condition that the relation c of pg_class belongs to the schema and meets the condition of
// [family]. Its form lets the server use the index on name and schema, because a database may have schemas for
// thousands of sources. The index sorts names by their bytes. So names that begin with n__ are between n__ and n_`.
func (d *DB) relations(names []string) string {
	or := make([]string, 0, 3*len(names))
	for _, n := range names {
		for _, is := range []string{n, n + currentSuffix} {
			if len(is) <= schemas.MaxName { // Postgres would cut a longer name, which would then mean another table
				or = append(or, "c.relname = "+literal(is))
			}
		}
		if child := n + "__"; len(child) <= schemas.MaxName {
			or = append(or, "c.relname >= "+literal(child)+" AND c.relname < "+literal(n+"_`"))
		}
	}
	if or == nil {
		return "false"
	}
	return "c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = " + literal(d.o.Schema) + ") AND (" + strings.Join(or, " OR ") + ")"
}

func (d *DB) readObjects(ctx context.Context, s *session, names []string) (map[string]*object, error) {
	all, relations := map[string]*object{}, map[string]relation{}
	query := `SELECT c.relname, c.relkind, ` + suspect + `, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
		a.attnotnull AND NOT a.atthasdef AND a.attidentity = '', c.oid, a.attnum
		FROM pg_catalog.pg_class c
		LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE ` + d.relations(names) + " ORDER BY c.relname, a.attnum"
	err := s.query(ctx, query, func(v [][]byte) error {
		o := all[string(v[0])]
		if o == nil {
			o = &object{kind: string(v[1]), suspect: string(v[2]) == "t", types: map[string]string{}}
			all[string(v[0])], relations[string(v[6])] = o, relation{o, map[string]string{}}
		}
		if v[3] == nil {
			return nil
		}
		column := string(v[3])
		o.columns = append(o.columns, column)
		o.types[column] = string(v[4])
		if string(v[5]) == "t" {
			o.required = append(o.required, column)
		}
		relations[string(v[6])].columns[string(v[7])] = column
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, readKeys(ctx, s, relations)
}

// relation is an object with the names of its columns by their attribute numbers.
type relation struct {
	*object
	columns map[string]string
}

// readKeys adds the unique keys to the relations. The keys of the map are OIDs. The query runs for each commit, so it
// reads only one table: planning a join would take longer than running it.
func readKeys(ctx context.Context, s *session, relations map[string]relation) error {
	if len(relations) == 0 {
		return nil
	}
	query := "SELECT indrelid, indkey, indnkeyatts FROM pg_catalog.pg_index WHERE indrelid IN (" + strings.Join(slices.Sorted(maps.Keys(relations)), ", ") +
		") AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL AND indexprs IS NULL"
	return s.query(ctx, query, func(v [][]byte) error {
		r, key := relations[string(v[0])], strings.Fields(string(v[1]))
		n, err := strconv.Atoi(string(v[2]))
		if err != nil {
			return err
		}
		for i, number := range key[:n] { // the other columns are only included in the index
			key[i] = r.columns[number]
		}
		r.unique = append(r.unique, strings.Join(key[:n], "\n"))
		return nil
	})
}

func (d *DB) readChanges(ctx context.Context, s *session, names []string) (changes []load.Change, err error) {
	query := `SELECT "table", "column", source, action, from_type, to_type, reason, (pg_catalog.date_part('epoch', at) * 1000000)::bigint FROM ` +
		d.place(load.Changes.Name) + " WHERE " + family(`"table"`, names)
	if err := s.run(ctx, "SAVEPOINT penstock_ledger"); err != nil {
		return nil, err
	}
	err = s.query(ctx, query, func(v [][]byte) error {
		var c load.Change
		for i, p := range []*string{&c.Table, &c.Column, &c.Source, &c.Action, &c.From, &c.To, &c.Reason} {
			*p = string(v[i])
		}
		micros, err := strconv.ParseInt(string(v[7]), 10, 64)
		c.At = time.UnixMicro(micros)
		changes = append(changes, c)
		return err
	})
	if c := code(err); c == codeUndefinedTable || c == codeNoSchema {
		return nil, s.run(ctx, "ROLLBACK TO SAVEPOINT penstock_ledger")
	}
	return changes, err
}

// table returns the named table as penstock has recorded it. If penstock never made it, the result has no columns. If
// the table was changed by hand, table returns an error. // Invariant 16
func (c *catalog) table(name string) (schemas.Table, error) {
	t, known := c.made[name]
	o := c.live[name]
	switch {
	case o == nil:
		return t, nil // never made, or dropped by hand: Apply creates it
	case o.kind != "r":
		return t, &load.ForeignChange{Table: name, Diff: []string{kindName(o.kind) + " has its name"}}
	case !known:
		return t, &load.ForeignChange{Table: name, Diff: []string{"it was not made by penstock"}}
	}
	types := c.types(t)
	if err := load.Compare(name, types, o.types); err != nil {
		return t, err
	}
	for _, column := range o.required {
		if _, own := types[column]; !own {
			return t, &load.ForeignChange{Table: name, Diff: []string{fmt.Sprintf("column %q requires a value in every row", column)}}
		}
	}
	if unique(t) && !slices.Contains(o.unique, load.KeyName(load.FullKey(t))) {
		return t, &load.ForeignChange{Table: name, Diff: []string{fmt.Sprintf("the primary key (%s) is gone", strings.Join(t.Key, ", "))}}
	}
	return t, nil
}

// altered reports whether the table looks as if it was changed by hand.
func (c *catalog) altered(name string) bool {
	_, err := c.table(name)
	return err != nil
}

// unique reports whether a table has at most one row per key.
func unique(t schemas.Table) bool {
	return len(t.Key) > 0 && t.Mode != schemas.Append && t.Mode != schemas.History
}

// types returns the types that the columns of a table should have. A JSON column may be json or jsonb, because the
// configuration may have changed.
func (c *catalog) types(t schemas.Table) map[string]string {
	types := map[string]string{}
	for _, f := range t.Columns.Fields() {
		types[f.Name] = c.db.sqlType(schemas.TypeOf(f))
		if live := c.live[t.Name].types[f.Name]; schemas.SameType(schemas.TypeOf(f), schemas.JSON) && (live == "json" || live == "jsonb") {
			types[f.Name] = live
		}
	}
	return types
}

func kindName(kind string) string {
	switch kind {
	case "v":
		return "a view"
	case "m":
		return "a materialised view"
	case "p":
		return "a partitioned table"
	case "f":
		return "a foreign table"
	}
	return "an object that is not a table"
}

// checkNames returns an error if the plan adds a column under a name that a user's column already has. Invariant 16
func (c *catalog) checkNames(p load.Plan) error {
	return load.CheckNewColumns(p, func(column string) string {
		if _, taken := c.live[p.Table.Name].types[column]; taken {
			return column
		}
		return ""
	})
}
