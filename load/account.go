package load

import (
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// A Lattice reads the type of a column in a database's words as one that holds
// the values of f; false where penstock would never write it.
type Lattice func(f arrow.Field, sql string) (arrow.DataType, bool)

// Views are the names of the views that changes have made.
func Views(changes []Change) map[string]bool {
	views := map[string]bool{}
	for _, c := range changes {
		if c.Action == ActionView {
			views[c.Table] = true
		}
	}
	return views
}

// Present are the tables made, by the account of their changes, that are live in
// the database under their names, in the order of these.
func Present[O any](made map[string]schemas.Table, live map[string]O) []schemas.Table {
	var out []schemas.Table
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if _, there := live[name]; there {
			out = append(out, made[name])
		}
	}
	return out
}

// Vacant refuses a plan that adds a column whose name somebody else has given to
// one of theirs, which is called as theirs says; "" where there is none.
// Invariant 16
func Vacant(p Plan, theirs func(column string) string) error {
	if p.Create {
		return nil
	}
	var diff []string
	for _, f := range p.Add {
		if name := theirs(f.Name); name != "" {
			diff = append(diff, fmt.Sprintf("column %q is another's, and stands where %s belongs", name, schemas.Source(f)))
		}
	}
	if diff == nil {
		return nil
	}
	return &ForeignChange{Table: p.Table.Name, Diff: diff}
}

// Adopt plans to take a table for penstock's own although the account of it is
// lost: it has the columns of bookkeeping, which nobody else would give one. Its
// columns are live, name to type. One that holds versions is of mode History,
// any other of the mode given. What the columns hold is known again from the
// rows that arrive; false where the table is not to be adopted.
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
	p := Plan{Create: true, From: mode, Table: t}
	for _, f := range wanted(t) {
		if typ, ok := lattice(f, live[f.Name]); ok {
			p.Add = append(p.Add, schemas.Field(f.Name, typ, schemas.Source(f)))
		}
	}
	p.Table.Columns = newSchema(p.Add, Place(want.Columns), About(want.Columns))
	return p, true
}

// Accept takes all columns of t that are live with other types than made, name
// to type in the database's words, for what they are; see [Accepted].
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
