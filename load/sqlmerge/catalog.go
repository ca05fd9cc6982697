package sqlmerge

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// catalog describes some tables, both as penstock has recorded them and as they are in the database.
type catalog struct {
	d     Dialect
	made  map[string]schemas.Table
	views map[string]bool // names of the views that penstock made
	live  map[string]*Object
}

// readCatalog reads the named tables and their children. A transaction that has changed tables must set fresh.
func (d *Store) readCatalog(ctx context.Context, r Reader, names []string, fresh bool) (*catalog, error) {
	live, err := objects(ctx, r, fresh)
	if err != nil {
		return nil, err
	}
	c := &catalog{d: d.b, live: live}
	var changes []load.Change
	if c.live[load.Changes.Name] != nil {
		if changes, err = d.readChanges(ctx, r, names); err != nil {
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

func (d *Store) readChanges(ctx context.Context, r Reader, names []string) (changes []load.Change, err error) {
	query := "SELECT " + d.b.Micros(`"at"`) + `, "table", "column", source, action, from_type, to_type FROM ` + d.b.Place(load.Changes.Name) +
		" WHERE action = " + d.b.Literal(load.ActionView) + " OR " + family(d.b, `"table"`, names)
	err = r.Query(ctx, query, func(v []driver.Value) error {
		var c load.Change
		at, _ := v[0].(int64)
		c.At = time.UnixMicro(at)
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
func family(d Dialect, column string, names []string) string {
	or := make([]string, 0, 2*len(names))
	for _, n := range names {
		or = append(or, column+" = "+d.Literal(n), fmt.Sprintf("substr(%s, 1, %d) = %s", column, len([]rune(n))+2, d.Literal(n+"__")))
	}
	return "(" + strings.Join(or, " OR ") + ")"
}

// userColumns returns the names of the columns of a table that penstock did not make, without those that the database
// computes.
func (c *catalog) userColumns(t schemas.Table) []string {
	var out []string
	if o := c.live[t.Name]; o != nil {
		for name := range o.Types {
			if !t.Columns.HasField(name) && !slices.Contains(o.Computed, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// checkNames returns an error if a column that the plan adds needs the name of a column that penstock did not make.
// It ignores case in names.
// Invariant 16
func (c *catalog) checkNames(p load.Plan) error {
	return load.CheckNewColumns(p, func(column string) string {
		for name := range c.live[p.Table.Name].Types {
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
	return t, load.Compare(name, c.typesOf(t), o.Types)
}

// typesOf returns the column types of a table as penstock made them.
func (c *catalog) typesOf(t schemas.Table) map[string]string {
	types := map[string]string{}
	for _, f := range t.Columns.Fields() {
		types[f.Name] = c.d.Type(schemas.TypeOf(f))
	}
	return types
}

// usable returns an error if rows cannot be written to the named table at all.
func (c *catalog) usable(name string) error {
	t, known := c.made[name]
	o := c.live[name]
	switch {
	case o.View:
		return &load.ForeignChange{Table: name, Diff: []string{"a view has its name"}}
	case !known:
		return &load.ForeignChange{Table: name, Diff: []string{"it was not made by penstock"}}
	}
	for _, column := range o.Required {
		if !t.Columns.HasField(column) {
			return &load.ForeignChange{Table: name, Diff: []string{fmt.Sprintf("column %q requires a value in every row", column)}}
		}
	}
	return nil
}

// adopt plans to take over a table that penstock made and whose recorded changes are lost. If the stream's mode is
// History and the table has no versions, it is taken over with mode Merge, and changes to History afterwards.
func (c *catalog) adopt(want schemas.Table) (load.Plan, bool) {
	o := c.live[want.Name]
	if _, known := c.made[want.Name]; known || o == nil || o.View {
		return load.Plan{}, false
	}
	mode := want.Mode.Or(schemas.Merge)
	if mode == schemas.History {
		mode = schemas.Merge
	}
	return load.Adopt(want, mode, o.Types, c.d.Lattice)
}

// findObject returns the table or view of that name, ignoring case.
func (c *catalog) findObject(name string) *Object {
	for n, o := range c.live {
		if strings.EqualFold(n, name) {
			return o
		}
	}
	return nil
}

// record stores changes where readChanges finds them, and sets their time. All changes that a transaction makes to
// tables get one time, which is later than those of earlier changes, because changes are replayed in the order of
// their times.
func (x *tx) record(ctx context.Context, changes []load.Change) error {
	if len(changes) == 0 {
		return nil
	}
	if x.stamp.IsZero() {
		last := int64(0)
		if err := numbers(ctx, x.s, "SELECT "+x.b.Micros(`max("at")`)+" FROM "+x.b.Place(load.Changes.Name), &last); err != nil {
			return err
		}
		x.stamp = load.CommitTime(x.of.Time(), time.UnixMicro(last))
	}
	rows := make([]string, len(changes))
	for i, c := range changes {
		changes[i].At = x.stamp
		values := []string{x.b.Timestamp(x.stamp)}
		for _, text := range []string{x.of.Run, c.Table, c.Column, c.Source, c.Action, c.From, c.To, c.Reason} {
			values = append(values, x.b.Literal(text))
		}
		rows[i] = "(" + strings.Join(values, ", ") + ")"
	}
	return x.s.Exec(ctx, "INSERT INTO "+x.b.Place(load.Changes.Name)+" VALUES "+strings.Join(rows, ", "))
}
