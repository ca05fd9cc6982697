package facts

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/state"
)

type idle struct {
	hub   *serve.Hub
	asked []serve.RunRequest
}

func (d *idle) Hub() *serve.Hub { return d.hub }
func (d *idle) RunNow(_ string, o serve.RunRequest) (string, error) {
	d.asked = append(d.asked, o)
	return "r1", nil
}
func (d *idle) Pause(context.Context, string) error  { return serve.ErrUnknown }
func (d *idle) Resume(context.Context, string) error { return serve.ErrBusy }

func TestStreamsAreNoPatterns(t *testing.T) {
	d := &idle{hub: serve.NewHub()}
	f := New(Config{}, &board.Feed{})
	f.daemon = d
	require.ErrorIs(t, f.Start(t.Context(), "nightly", "*"), board.ErrUnknown)
	require.Empty(t, d.asked)
	require.NoError(t, f.Start(t.Context(), "nightly"))
	require.Equal(t, []serve.RunRequest{{Trigger: serve.TriggerManual}}, d.asked)
	require.ErrorIs(t, f.Pause(t.Context(), "nightly"), board.ErrUnknown)
	require.ErrorIs(t, f.Resume(t.Context(), "nightly"), board.ErrBusy)
}

func TestTrafficIsOfTheLastHour(t *testing.T) {
	d := deliveries{bySource: map[string]*traffic{}}
	now := time.Now().Truncate(time.Minute)
	for _, ago := range []int{500, 61, 59, 59, 3, 0} {
		d.add(serve.WebhookSeen{Source: "main", Verdict: "stored", Status: 204}, now.Add(-time.Duration(ago)*time.Minute))
	}
	d.add(serve.WebhookSeen{Source: "main", Verdict: "signature", Status: 401}, now)
	w := board.Webhook{Source: "main"}
	d.count(&w, now)
	require.EqualValues(t, 6, w.Received)
	require.Equal(t, []board.Count{{Name: "signature", N: 1}}, w.Refused)
	require.Len(t, w.PerMin, 60)
	sum := int64(0)
	for _, n := range w.PerMin {
		sum += n
	}
	require.EqualValues(t, 4, sum)
}

func TestQuotaIsTold(t *testing.T) {
	in, err := state.OpenInbox(t.Context(), t.TempDir(), state.InboxOptions{Quota: 1000})
	require.NoError(t, err)
	defer in.Close()
	_, err = in.Append(t.Context(), state.Event{Source: "main", Body: make([]byte, 500)})
	require.NoError(t, err)
	f := New(Config{Inbox: in, Destinations: func() []DestinationPart { return nil }, Webhooks: func() []Receiver { return []Receiver{{Source: "main"}} }}, &board.Feed{})
	f.daemon = &idle{hub: serve.NewHub()}
	close(f.first)
	all, err := f.Webhooks(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.EqualValues(t, 1000, all[0].Quota)
	require.Greater(t, all[0].Bytes, int64(500))
	require.Zero(t, all[0].Room, "the scheme is known, so no unverified deliveries are kept")
}

func TestCapturesAreTold(t *testing.T) {
	in, err := state.OpenInbox(t.Context(), t.TempDir(), state.InboxOptions{})
	require.NoError(t, err)
	defer in.Close()
	for range 3 {
		require.NoError(t, in.Capture(t.Context(), state.Event{Source: "main", Received: time.Now(), Body: []byte("{}")}))
	}
	f := New(Config{Inbox: in, Destinations: func() []DestinationPart { return nil }, Webhooks: func() []Receiver { return []Receiver{{Source: "main", Scheme: "learn"}} }}, &board.Feed{})
	f.daemon = &idle{hub: serve.NewHub()}
	close(f.first)
	all, err := f.Webhooks(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{3, 100}, []int{all[0].Captured, all[0].Room})
}

func TestZoneOfASchedule(t *testing.T) {
	for schedule, want := range map[string][2]string{
		"":                          {"", ""},
		"0 2 * * * Europe/Berlin":   {"0 2 * * *", "Europe/Berlin"},
		"0 2 * * *":                 {"0 2 * * *", "UTC"},
		"0 2 * * MON":               {"0 2 * * MON", "UTC"},
		"@every 1h":                 {"@every 1h", "UTC"},
		"0 0 2 * * 1 Asia/Calcutta": {"0 0 2 * * 1", "Asia/Calcutta"},
	} {
		cron, zone := split(schedule)
		require.Equal(t, want, [2]string{cron, zone}, schedule)
	}
}

// A run into two destinations is one item, with the worse of the two statuses.
func TestRunInTwoPlaces(t *testing.T) {
	at := time.Now()
	a := board.Run{ID: "r1", Destinations: []string{"a"}, Status: pipeline.StatusComplete, Ended: at, Counts: pipeline.Counts{Fetched: 3, Written: 3}, Streams: 2}
	b := board.Run{ID: "r1", Destinations: []string{"b"}, Status: pipeline.StatusPartial, Ended: at.Add(time.Second), Counts: pipeline.Counts{Fetched: 2, Written: 1, Unchanged: 1}, Streams: 2, Open: 1, Error: "b is full"}
	for _, r := range []board.Run{both(a, b), both(b, a)} {
		require.Equal(t, pipeline.StatusPartial, r.Status)
		require.ElementsMatch(t, []string{"a", "b"}, r.Destinations)
		require.Equal(t, pipeline.Counts{Fetched: 5, Written: 4, Unchanged: 1}, r.Counts)
		require.Equal(t, []any{2, 1, "b is full", at.Add(time.Second)}, []any{r.Streams, r.Open, r.Error, r.Ended})
		require.True(t, r.Sum().AddsUp)
	}
}

func TestMissedSlots(t *testing.T) {
	for cause, want := range map[serve.Skip]string{
		serve.SkipMissed: "missed", serve.SkipOverlap: "missed", serve.SkipPaused: "skipped", serve.SkipMadeUp: "skipped", serve.SkipLocked: "skipped",
	} {
		require.Equal(t, want, slotOf(state.SlotRecord{State: state.SlotSkipped, Cause: string(cause)}).State, cause)
	}
	require.Equal(t, "ran", slotOf(state.SlotRecord{State: state.SlotRan, Cause: string(serve.TriggerSchedule)}).State)
}
