//go:build unix

package pgtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRestart(t *testing.T) {
	s := Start(t)
	s.Exec("CREATE TABLE kept AS SELECT 1 AS n; CHECKPOINT")
	for _, immediate := range []bool{false, true} {
		s.Restart(immediate)
		require.Equal(t, "1", s.Text("SELECT count(*) FROM kept"))
	}
	s.Stop()
	s.Stop()
	s.Resume()
	require.Equal(t, "1", s.Text("SELECT n FROM kept"))
}
