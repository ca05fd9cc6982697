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

// Views returns the names of the views that penstock created, according to the recorded changes.
func Views(changes []Change) map[string]bool {
	views := map[string]bool{}
	for _, c := range changes {
		if c.Action == ActionView {
			views[c.Table] = true
		}
	}
	return views
}

// ExistingTables returns the tables that penstock made and that still exist in the database, sorted by name. It gets
// the tables that [Replay] computed, and the tables that exist now.
func ExistingTables[O any](replayed map[string]schemas.Table, existing map[string]O) []schemas.Table {
	var out []schemas.Table
	for _, name := range slices.Sorted(maps.Keys(replayed)) {
		if _, there := existing[name]; there {
			out = append(out, replayed[name])
		}
	}
	return out
}

// CheckNewColumns returns an error if the plan adds a column under a name that a user's column already has.
// userColumn() returns the name of the user's column that conflicts with a planned column, or "" if there is none.
// Invariant 16
func CheckNewColumns(p Plan, userColumn func(column string) string) error {
	if p.Create {
		return nil
	}
	var diff []string
	for _, f := range p.Add {
		if name := userColumn(f.Name); name != "" {
			diff = append(diff, fmt.Sprintf("column %q was not made by penstock, and has the name that penstock needs for %s", name, schemas.Source(f)))
		}
	}
	if diff == nil {
		return nil
	}
	return &ForeignChange{Table: p.Table.Name, Diff: diff}
}

// Adopt plans how to take over a table whose recorded changes are lost. The parameter `arriving` is the table of the
// arriving rows; its metadata names the source field of each column. The parameter `types` has the types of the
// existing columns, by column name. A table that holds versions gets mode History. Any other table gets the given mode.
//
// Adopt returns false for one of penstock's own tables, and for a table that lacks one of the columns that only
// penstock creates.
func Adopt(arriving schemas.Table, mode schemas.Mode, types map[string]string, lattice Lattice) (Plan, bool) {
	if IsInternal(arriving.Name) {
		return Plan{}, false
	}
	for _, own := range []string{schemas.ColSyncedAt, schemas.ColRun, schemas.ColHash, schemas.ColDeletedAt, schemas.ColVia} {
		if _, ok := types[own]; !ok {
			return Plan{}, false
		}
	}
	if _, versions := types[schemas.ColValidTo]; versions {
		mode = schemas.History
	}
	t := schemas.Table{Name: arriving.Name, Key: arriving.Key, Mode: mode, Columns: arriving.Columns}
	p := Plan{Create: true, OldMode: mode, Table: t}
	for _, f := range wanted(t) {
		if typ, ok := lattice(f, types[f.Name]); ok {
			p.Add = append(p.Add, schemas.Field(f.Name, typ, schemas.Source(f)))
		}
	}
	p.Table.Columns = newSchema(p.Add, SourcePointer(arriving.Columns), TableDescription(arriving.Columns))
	return p, true
}

// Accept returns the changes to record after a person has accepted the differences of a table: columns of t that were
// dropped, and columns of t whose type was changed. Accept returns an error if penstock cannot write the new type. The
// maps recordedTypes and presentTypes have the types that penstock recorded and the types that the columns have now.
// Their keys are column names, and the types are in the database's notation. See [Accepted].
func Accept(t schemas.Table, recordedTypes, presentTypes map[string]string, lattice Lattice) ([]Change, error) {
	var changes []Change
	for _, f := range t.Columns.Fields() {
		sql, there := presentTypes[f.Name]
		if there && sql == recordedTypes[f.Name] {
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
