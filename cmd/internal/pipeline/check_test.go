package pipeline

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/schemas"
)

// If the last commit of a pass fails, the table may lack rows, although the pass has a verdict. Then only the age of the
// rows is checked.
func TestChecksAfterAFailedCommit(t *testing.T) {
	given, fresh := schemas.Check{Name: "given", Kind: schemas.CheckNotNull}, schemas.Check{Name: "fresh", Kind: schemas.CheckFresh}
	failed := StreamReport{Verdict: Proven, Status: StatusFailed}
	require.False(t, due(failed, given))
	require.True(t, due(failed, fresh))
	failed.ended = true
	require.True(t, due(failed, given), "an earlier pass of the run was committed")
}

// A report states no verdict whose certificate is not stored, at whatever step the destination fails. // Invariant 14
func TestVerdictsAreStored(t *testing.T) {
	failed := 0
	for after := 0; ; after++ {
		r := newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 25), Size: 10, Total: true}}, sourcetest.Stream("crm_leads"))
		left := after
		r.restart(func(step string) error {
			if left--; left < 0 {
				return fmt.Errorf("killed at %s", step)
			}
			return nil
		})
		rep, _ := r.run(t.Context())
		r.restart(nil)
		for _, s := range rep.Streams {
			if certified := len(r.certificates("crm_leads")) > 0; certified {
				require.Equal(t, Proven, s.Verdict, "failed after %d steps", after)
			} else {
				require.Empty(t, s.Verdict, "failed after %d steps: %v", after, s.Err)
				failed++
			}
		}
		if left > 0 {
			break
		}
	}
	require.Positive(t, failed)
}
