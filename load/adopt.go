package load

import (
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// Lattice returns the penstock type of a column f. The parameter sql is the column's type in the database. The bool
// is false if penstock never creates columns of that type.
type Lattice func(f arrow.Field, sql string) (arrow.DataType, bool)

// Views returns the names of the views that changes created.
func Views(changes []Change) map[string]bool {
	views := map[string]bool{}
	for _, c := range changes {
		if c.Action == ActionView {
			views[c.Table] = true
		}
	}
	return views
}

// ExistingTables returns the tables that penstock made and that still exist in the database, sorted by name. The
// parameter made has the tables that [Replay] computed. The parameter live has the tables that exist.
func ExistingTables[O any](made map[string]schemas.Table, live map[string]O) []schemas.Table {
	var out []schemas.Table
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if _, there := live[name]; there {
			out = append(out, made[name])
		}
	}
	return out
}

// CheckNewColumns returns an error if the plan adds a column whose name is taken by a column that penstock did not
// make. For a planned column, the function theirs returns the name of such a column, or "" if there is none.
// Invariant 16
func CheckNewColumns(p Plan, theirs func(column string) string) error {
	if p.Create {
		return nil
	}
	var diff []string
	for _, f := range p.Add {
		if name := theirs(f.Name); name != "" {
			diff = append(diff, fmt.Sprintf("column %q was not made by penstock, and takes the name needed for %s", name, schemas.Source(f)))
		}
	}
	if diff == nil {
		return nil
	}
	return &ForeignChange{Table: p.Table.Name, Diff: diff}
}

// Adopt plans how to take over a table whose recorded changes are lost. The parameter want is the table of the
// arriving rows; its columns show which source field each column holds. The map live has the types of the table's
// columns by name. A table that holds versions gets mode History, and any other table the given mode.
//
// Adopt returns false for one of penstock's own tables, and for a table that lacks one of the columns that only
// penstock creates.
func Adopt(want schemas.Table, mode schemas.Mode, live map[string]string, lattice Lattice) (Plan, bool) {
	if IsInternal(want.Name) {
		return Plan{}, false
	}
	for _, own := range []string{schemas.ColSyncedAt, schemas.ColRun, schemas.ColHash, schemas.ColDeletedAt, schemas.ColVia} {
		if _, ok := live[own]; !ok {
			return Plan{}, false
		}
	}
	if _, versions := live[schemas.ColValidTo]; versions {
		mode = schemas.History
	}
	t := schemas.Table{Name: want.Name, Key: want.Key, Mode: mode, Columns: want.Columns}
	p := Plan{Create: true, OldMode: mode, Table: t}
	for _, f := range wanted(t) {
		if typ, ok := lattice(f, live[f.Name]); ok {
			p.Add = append(p.Add, schemas.Field(f.Name, typ, schemas.Source(f)))
		}
	}
	p.Table.Columns = newSchema(p.Add, SourcePointer(want.Columns), TableDescription(want.Columns))
	return p, true
}

// Accept returns the changes that accept two kinds of differences: columns of t that were dropped, and columns of t
// whose type was changed. It returns an error if penstock cannot write the new type. The maps made and live have the
// types by column name, in the database's notation. See [Accepted].
func Accept(t schemas.Table, made, live map[string]string, lattice Lattice) ([]Change, error) {
	var changes []Change
	for _, f := range t.Columns.Fields() {
		sql, there := live[f.Name]
		if there && sql == made[f.Name] {
			continue
		}
		to, known := lattice(f, sql)
		switch {
		case !there:
			to = nil
		case !known:
			return nil, fmt.Errorf("column %q is %s, which penstock does not write", f.Name, sql)
		}
		c, err := Accepted(t, f, to)
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	return changes, nil
}
