package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

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
