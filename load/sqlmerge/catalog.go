package sqlmerge

import (
	"context"
	"database/sql/driver"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// catalog describes families of tables, both as penstock has recorded them and as they are in the database. A family is
// a table, its child tables, and the views of their current rows. Each family is read once. After that, the catalog
// follows the changes that its own transaction makes.
type catalog struct {
	d      Dialect
	traits Traits
	r      Reader
	of     load.Pass // the pass that changes tables
	pooled bool      // the backend creates penstock's own tables: see [Pooled]

	live   map[string]*Object
	looked []string // names that were looked up

	changes  []load.Change    // recorded changes of the families in replayed
	replayed map[string]bool  // families whose recorded changes were read, by the name of the root table
	makers   map[string]maker // the last run that created a table, by the name of the table
	stale    bool             // the maps `made` and `views` must be computed again, because changes were added
	made     map[string]schemas.Table
	views    map[string]bool // names of the views that penstock made
	stamp    time.Time       // time of the last changes that this transaction has recorded
}

// newCatalog returns an empty catalog.
func newCatalog(b Backend, r Reader, of load.Pass) *catalog {
	_, pooled := b.(Pooled)
	c := &catalog{d: b, traits: b.Traits(), r: r, of: of, pooled: pooled}
	c.reset()
	return c
}

// readCatalog returns a catalog with the families of the named tables.
func readCatalog(ctx context.Context, b Backend, r Reader, names ...string) (*catalog, error) {
	c := newCatalog(b, r, load.Pass{})
	return c, c.read(ctx, names...)
}

// reset makes the catalog read everything again, because other transactions may have changed tables.
func (c *catalog) reset() {
	c.live, c.replayed, c.looked, c.changes, c.made, c.makers = map[string]*Object{}, map[string]bool{}, nil, nil, nil, map[string]maker{}
}

// viewSuffix is the suffix of the name of a view that shows a table's current rows.
const viewSuffix = "_current"

// look finds out which objects of the named tables' families exist.
func (c *catalog) look(ctx context.Context, names ...string) error {
	var missing, folded []string
	for _, n := range names {
		for _, name := range []string{n, n + viewSuffix} {
			if name != n && load.IsInternal(n) || slices.Contains(c.looked, name) || slices.Contains(missing, name) {
				continue
			}
			missing, folded = append(missing, name), append(folded, strings.ToLower(name))
		}
	}
	if missing == nil {
		return nil
	}
	found, err := c.r.Objects(ctx, missing)
	if err != nil {
		return fmt.Errorf("read the database's catalog: %w", err)
	}
	for name, o := range found {
		if inFamilies(strings.ToLower(name), folded) && !inFamilies(name, c.looked) { // an earlier entry stays, because this transaction may have changed it
			c.live[name] = o
		}
	}
	c.looked = append(c.looked, missing...)
	return nil
}

// ReadObjects implements [Reader].Objects. The query returns a row for each column of a table or view: the name of the
// table, the name of the column, its type, whether it is required, and whether it is computed. For an object that is
// not a table, it returns a row with the name of the object, null, and the kind of the object, such as VIEW. The
// function original() converts a stored name to the original name of the table or column. If original is nil, stored
// names stay unchanged.
func ReadObjects(ctx context.Context, r Reader, query string, original func(stored string) string) (map[string]*Object, error) {
	if original == nil {
		original = func(stored string) string { return stored }
	}
	all := map[string]*Object{}
	err := r.Query(ctx, query, func(v []driver.Value) error {
		name, text := original(v[0].(string)), v[2].(string)
		o := all[name]
		if o == nil {
			o = &Object{Types: map[string]string{}}
			all[name] = o
		}
		if v[1] == nil {
			if o.View = text == "VIEW"; !o.View {
				o.Other = "a " + text
			}
			return nil
		}
		column := original(v[1].(string))
		o.Types[column] = text
		if v[3] == true || v[3] == int64(1) {
			o.Required = append(o.Required, column)
		}
		if v[4] == true || v[4] == int64(1) {
			o.Computed = append(o.Computed, column)
		}
		return nil
	})
	return all, err
}

// inFamilies reports whether the name is one of the given names of tables, or the name of a child table of one of these
// tables.
func inFamilies(name string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		rest, ok := strings.CutPrefix(name, n)
		return ok && (rest == "" || strings.HasPrefix(rest, "__"))
	})
}

// read reads the families of the named tables.
func (c *catalog) read(ctx context.Context, names ...string) error {
	if err := c.look(ctx, append([]string{load.Changes.Name}, names...)...); err != nil {
		return err
	}
	var missing []string
	for _, n := range names {
		if c.replayed[n] {
			continue
		}
		if c.replayed[n] = true; c.asCreated(n) {
			c.stale = true
			continue
		}
		missing = append(missing, n)
	}
	if missing != nil {
		if err := c.readChanges(ctx, missing); err != nil {
			return fmt.Errorf("read %s: %w", load.Changes.Name, err)
		}
	}
	if c.made != nil && !c.stale {
		return nil
	}
	var err error
	c.views, c.stale = load.Views(c.changes), false
	if c.made, err = load.Replay(c.changes); err != nil {
		return err
	}
	for _, t := range load.OwnTables() { // the backend may have created them without recording changes
		o := c.live[t.Name]
		if _, recorded := c.made[t.Name]; recorded || o == nil || !c.replayed[t.Name] {
			continue
		}
		if o.Types[schemas.ColSource] != "" {
			t = load.ShareTable(t)
		}
		c.made[t.Name] = t
	}
	return nil
}

// FamilySQL returns the condition that the column holds one of the given names of tables, or the name of a child table
// of one of these tables.
func FamilySQL(d Dialect, column string, names []string) string {
	or := make([]string, 0, 2*len(names))
	for _, n := range names {
		or = append(or, column+" = "+d.Literal(n), fmt.Sprintf("substr(%s, 1, %d) = %s", column, len([]rune(n))+2, d.Literal(n+"__")))
	}
	return "(" + strings.Join(or, " OR ") + ")"
}

// targets returns the tables that exist in the families of the named tables.
func (c *catalog) targets(in *scope, names []string) targets {
	all := targets{}
	for _, t := range load.ExistingTables(c.made, c.live) {
		if inFamilies(t.Name, names) {
			all[t.Name] = &target{Table: t, in: in, userColumns: c.userColumns(t), lacksKey: LateKey(t) && c.lacksKey(t)}
		}
	}
	return all
}

// userColumns returns the names of a table's columns that penstock did not make, except columns that the database
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

// checkNames returns an error if the plan adds a column, and the table has a column of this name that penstock did not
// make. Invariant 16
func (c *catalog) checkNames(p load.Plan) error {
	return load.CheckNewColumns(p, func(column string) string {
		for name := range c.live[p.Table.Name].Types {
			if c.traits.sameName(name, column) {
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
	if err := load.Compare(name, c.typesOf(t), o.Types); err != nil {
		return t, err
	}
	if !LateKey(t) && c.lacksKey(t) {
		return t, &load.ForeignChange{Table: name, Diff: []string{fmt.Sprintf("the primary key (%s) is gone", strings.Join(t.Key, ", "))}}
	}
	return t, nil
}

// lacksKey reports whether a table of the database should have a primary key and has none.
func (c *catalog) lacksKey(t schemas.Table) bool {
	o := c.live[t.Name]
	return o != nil && c.traits.PrimaryKeys && OneRowPerKey(t) && !slices.Contains(o.Unique, load.KeyName(load.FullKey(t)))
}

// typesOf returns the types that the columns of a table should have. A database may have several types for one penstock
// type, such as json and jsonb. A column with any of them is correct.
func (c *catalog) typesOf(t schemas.Table) map[string]string {
	types := map[string]string{}
	for _, f := range t.Columns.Fields() {
		want, live := c.d.Type(schemas.TypeOf(f)), c.live[t.Name].Types[f.Name]
		if found, ok := c.d.Lattice(f, live); live != "" && ok && schemas.SameType(found, schemas.TypeOf(f)) {
			want = live
		}
		types[f.Name] = want
	}
	return types
}

// checkSafe returns an error if it is unsafe to write to one of the named tables, or to one of their child tables that
// penstock made. Invariant 16
func (c *catalog) checkSafe(names []string) error {
	for name, o := range c.live {
		_, made := c.made[name]
		if o.isTable() && len(o.Unsafe) > 0 && (made && inFamilies(name, names) || slices.Contains(names, name)) {
			return &load.ForeignChange{Table: name, Diff: o.Unsafe}
		}
	}
	return nil
}

// The method usable() returns an error if rows cannot be written to the named table at all.
func (c *catalog) usable(name string) error {
	t, known := c.made[name]
	o := c.live[name]
	switch {
	case o.View:
		return &load.ForeignChange{Table: name, Diff: []string{"a view has the name of the table"}}
	case o.Other != "":
		return &load.ForeignChange{Table: name, Diff: []string{o.Other + " has the name of the table"}}
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

// accept returns the changes that must be recorded to accept the named table as it is.
func (c *catalog) accept(name string) ([]load.Change, error) {
	live := c.live[name]
	if live == nil {
		return nil, nil
	}
	if err := c.usable(name); err != nil {
		return nil, err
	}
	t := c.made[name]
	return load.Accept(t, c.typesOf(t), live.Types, c.d.Lattice)
}

// adopt returns a plan for a table that penstock made, but whose recorded changes are lost. With this plan, penstock
// takes over the table. If the stream's mode is History and the table has no versions, the table is taken over with
// mode Merge, and its mode is changed to History afterwards. If the table should have a primary key from the beginning
// and has none, it is taken over with mode Append.
func (c *catalog) adopt(want schemas.Table) (load.Plan, bool) {
	o := c.live[want.Name]
	if _, known := c.made[want.Name]; known || o == nil || !o.isTable() {
		return load.Plan{}, false
	}
	mode := want.Mode.Or(schemas.Merge)
	keyed := c.traits.PrimaryKeys && len(want.Key) > 0
	switch {
	case keyed && !LateKey(want) && !slices.Contains(o.Unique, load.KeyName(load.FullKey(want))):
		mode = schemas.Append
	case mode == schemas.History || keyed && mode == schemas.Append:
		mode = schemas.Merge
	}
	return load.Adopt(want, mode, o.Types, c.d.Lattice)
}

// The method altered() updates the catalog after this transaction has carried out a plan.
func (c *catalog) altered(p load.Plan) {
	o := Object{}
	if there := c.live[p.Table.Name]; there != nil {
		o = *there
	}
	columns := p.Add
	if o.Types = maps.Clone(o.Types); p.Create {
		o.Types, columns = map[string]string{}, p.Table.Columns.Fields()
	}
	for _, f := range columns {
		o.Types[f.Name] = c.d.Type(schemas.TypeOf(f))
	}
	for _, w := range p.Widen {
		o.Types[w.Column.Name] = c.d.Type(schemas.TypeOf(w.Column))
	}
	if OneRowPerKey(p.Table) && !LateKey(p.Table) {
		o.Unique = append(slices.Clip(o.Unique), load.KeyName(load.FullKey(p.Table)))
	}
	c.live[p.Table.Name] = &o
}

// findObject returns the object with the given name.
func (c *catalog) findObject(name string) *Object {
	for n, o := range c.live {
		if c.traits.sameName(n, name) {
			return o
		}
	}
	return nil
}
