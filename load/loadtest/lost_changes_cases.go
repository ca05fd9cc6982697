package loadtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// testChangesLost drops the table that records how tables were changed. The destination must then take over the
// existing tables with all versions of their rows, and loading must continue. Invariant 16
func testChangesLost(t *testing.T, d Driver) {
	if d.Drop == nil {
		t.Skip("the recorded changes are not in a table")
	}
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			b, f := newFixture(t, d), newFamily(mode, true)
			b.commit(load.Sweep{}, f.puts(b.pass.Run, "1:ann 2:bob")...)
			d.Drop(t, b.dest, load.Changes.Name)
			b.run(2)
			if mode == schemas.History {
				x := b.begin()
				b.write(x, newFamily(schemas.Merge, true).puts(b.pass.Run, "1:amy")...)
				_, err := x.Apply(t.Context(), load.Sweep{})
				require.ErrorContains(t, err, "cannot change to mode merge")
				require.NoError(t, x.Rollback())
			}
			out := b.commit(load.Sweep{}, f.puts(b.pass.Run, "1:ann 2:bea")...)
			require.Equal(t, load.Outcome{Written: 1, Unchanged: 1}, out)
			b.reopen()
			tables, err := b.dest.Tables(t.Context(), "people")
			require.NoError(t, err)
			require.Len(t, tables, 3)
			for _, have := range tables {
				require.Equal(t, mode, have.Mode, have.Name)
			}
			require.Equal(t, f.root.Key, tables[0].Key)
			require.Len(t, b.rows("people"), map[bool]int{true: 3, false: 2}[mode == schemas.Append || mode == schemas.History])
		})
	}
}
