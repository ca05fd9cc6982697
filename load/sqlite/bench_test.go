package sqlite

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

// BenchmarkMerge measures a commit of 50,000 records in three cases: all records are new, all are unchanged, or 500
// have changed.
func BenchmarkMerge(b *testing.B) {
	values := func(changed int) []string {
		out := make([]string, 50_000)
		for i := range out {
			out[i] = fmt.Sprintf("record %d", i)
			if i < changed {
				out[i] += " changed"
			}
		}
		return out
	}
	for _, c := range []struct {
		name    string
		changed int
		first   bool
	}{{"new", 0, true}, {"unchanged", 0, false}, {"changed", 500, false}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				r := newRig(b)
				if !c.first {
					r.put(schemas.Text, values(0)...)
				}
				b.StartTimer()
				out := r.put(schemas.Text, values(c.changed)...)
				require.EqualValues(b, len(values(0)), out.Written+out.Unchanged)
			}
		})
	}
}
