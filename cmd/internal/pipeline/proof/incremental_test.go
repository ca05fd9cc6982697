package proof

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRefuted(t *testing.T) {
	edge := "2026-11-21T10:00:00Z"
	require.Empty(t, Changes{Field: "updated_at", Edge: edge}.Refuted())
	require.Equal(t, "1 record was new or changed although updated_at is before 2026-11-21T10:00:00Z, and earlier passes have read all changes up to that time",
		Changes{Field: "updated_at", Edge: edge, Overlooked: 1}.Refuted())
	require.Contains(t, Changes{Misplaced: "on page 3 …"}.Refuted(), "page 3")
}
