package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

// A child stream gets the worse of two verdicts: on its parent's last pass in any destination, and on the last pass
// in the destination of the child stream.
func TestParentVerdictByDestination(t *testing.T) {
	for _, tt := range []struct {
		name         string
		first, then  Verdict
		wantA, wantB Verdict
	}{
		{"proven in both", Proven, Proven, Proven, Proven},
		{"in doubt where it ended first", Unproven, Proven, Unproven, Proven},
		{"in doubt where it ended last", Proven, Unproven, Unproven, Unproven},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &run{proof: lists{verdict: map[string]Verdict{}, own: map[[2]string]Verdict{}, held: map[[2]string]bool{}}}
			p := &pass{streamRun: &streamRun{run: r, stream: schemas.Stream{Name: "x.parents"}}}
			require.Empty(t, r.proofOf("a", "x.parents"))
			p.prove("a", claim{verdict: tt.first})
			require.Equal(t, tt.first, r.proofOf("b", "x.parents"), "the destination had no pass of its own")
			p.prove("b", claim{verdict: tt.then})
			require.Equal(t, tt.wantA, r.proofOf("a", "x.parents"))
			require.Equal(t, tt.wantB, r.proofOf("b", "x.parents"))
		})
	}
}
