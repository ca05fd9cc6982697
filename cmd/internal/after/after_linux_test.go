package after

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// If only the supervisor is killed, its command ends too.
func TestKilledSupervisor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	done := make(chan pipeline.Command, 1)
	go func() {
		done <- command(dir, "sh", "-c", "echo $$ $PPID >pids.new; mv pids.new pids; exec sleep 300").Run(t.Context())
	}()
	all := pids(t, dir)
	require.NoError(t, syscall.Kill(all[1], syscall.SIGKILL))
	requireEnded(t, all)
	require.Equal(t, pipeline.CommandFailed, (<-done).Result)
}
