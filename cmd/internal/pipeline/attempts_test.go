package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/load"
)

// Several attempts at a run share one row of the table of runs. The row contains the sums over the attempts, and a list
// of the attempts. A stream has the status of the last attempt that has read it.
func TestAttemptsAreOneRun(t *testing.T) {
	items := &sourcetest.List{Records: sourcetest.Records(0, 6), Size: 2, Total: true}
	other := &sourcetest.List{Records: sourcetest.Records(0, 3), Size: 2, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"items": items, "other": other}, sourcetest.Stream("items"), sourcetest.Stream("other"))
	r.config.Run = "0dq1abcdefgh"
	all := r.config.Streams
	items.Fail = func(page int) error {
		if page > 0 {
			return errors.New("the server is down")
		}
		return nil
	}
	row := func() (status string, c runCounts) {
		t.Helper()
		rows := r.memory.Rows(load.Runs.Name)
		require.Len(t, rows, 1)
		require.Equal(t, r.config.Run, rows[0]["run"])
		require.NoError(t, json.Unmarshal([]byte(rows[0]["counts"]), &c))
		return rows[0]["status"], c
	}
	_, err := r.run(t.Context())
	require.NoError(t, err)
	status, c := row()
	require.Equal(t, "failed", status)
	require.Empty(t, c.Attempts, "there was only one attempt")
	require.Equal(t, map[Status][]string{StatusFailed: {"items"}}, c.Open)

	items.Fail, r.config.Streams = nil, all[:1] // the stream that is not complete yet
	steps, killed := 0, errors.New("killed")
	r.restart(func(string) error {
		if steps++; steps > 8 { // killed after the row says that the attempt is running
			return killed
		}
		return nil
	})
	_, _ = r.run(t.Context())
	r.restart(nil)
	status, _ = row()
	require.Equal(t, "running", status)

	rep, err := r.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, r.config.Run, rep.Run)
	status, c = row()
	require.Equal(t, "complete", status)
	require.Empty(t, c.Open)
	require.Equal(t, map[Status]int{StatusComplete: 2}, c.Streams)
	require.EqualValues(t, 9, c.Written)
	var told []string
	for _, a := range c.Attempts {
		told = append(told, fmt.Sprint(a.Status, " ", a.Written))
	}
	require.Equal(t, []string{"failed 3", "failed 0", "complete 6"}, told)
	require.Contains(t, c.Attempts[1].Error, "was killed")
	require.Len(t, r.alive("items"), 6)
}

// A stopped attempt has the status `stopped`, and the next attempt continues its pass. If a record disappears from the
// source, a later pass of the same run marks its row as deleted.
func TestAttemptsContinue(t *testing.T) {
	items := &sourcetest.List{Records: sourcetest.Records(0, 6), Size: 2, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"items": items}, sourcetest.Stream("items"))
	r.config.Run = "0dq1abcdefgh"
	ctx, cancel := context.WithCancelCause(t.Context())
	items.Wait = func(_ context.Context, page int) {
		if page == 2 {
			cancel(errors.New("stopped"))
		}
	}
	_, _ = r.run(ctx)
	require.Equal(t, "stopped", r.memory.Rows(load.Runs.Name)[0]["status"])
	items.Wait = nil
	for attempt := range 4 {
		if attempt == 2 {
			items.Records = items.Records[:5]
		}
		r.must(StatusComplete)
		rows := r.memory.Rows(load.Runs.Name)
		require.Len(t, rows, 1)
		var c runCounts
		require.NoError(t, json.Unmarshal([]byte(rows[0]["counts"]), &c))
		require.Equal(t, map[Status]int{StatusComplete: 1}, c.Streams, "a stream counts once, however often it was read")
	}
	require.Len(t, r.alive("items"), 5)
}
