package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The verdict on the parents of a child stream is the worse of two verdicts. One is on the last pass over the parent
// stream in any destination. The other is on the last pass over the parent stream in the child stream's destination.
func TestParentVerdictByDestination(t *testing.T) {
	for _, tt := range []struct {
		name         string
		first, then  Verdict
		wantA, wantB Verdict
	}{
		{"proven in both", Proven, Proven, Proven, Proven},
		{"in doubt in the destination that ended first", Unproven, Proven, Unproven, Proven},
		{"in doubt in the destination that ended last", Proven, Unproven, Unproven, Unproven},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newVerdicts()
			require.Empty(t, r.of("a", "x.parents"))
			r.set("a", "x.parents", claim{verdict: tt.first})
			require.Equal(t, tt.first, r.of("b", "x.parents"), "the destination had no pass of its own")
			r.set("b", "x.parents", claim{verdict: tt.then})
			require.Equal(t, tt.wantA, r.of("a", "x.parents"))
			require.Equal(t, tt.wantB, r.of("b", "x.parents"))
		})
	}
}
