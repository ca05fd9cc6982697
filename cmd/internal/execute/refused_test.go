package execute

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// A wrong range is no failure of the source. A destination that cannot be opened is one, as in other runs.
func TestBackfillRefused(t *testing.T) {
	wrong, broken := failure.Usage("", "crm.leads cannot be read by range"), errors.New("open warehouse: connection refused")
	backfill := Run{Options: pipeline.Options{Backfill: &pipeline.Backfill{}}}
	require.True(t, backfill.refused(t.Context(), ending{err: wrong}))
	require.False(t, backfill.refused(t.Context(), ending{err: broken}))
	require.False(t, backfill.refused(t.Context(), ending{report: pipeline.Report{Run: "r"}, err: wrong}))
	require.False(t, Run{}.refused(t.Context(), ending{err: wrong}))
}
