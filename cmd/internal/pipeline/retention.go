package pipeline

import (
	"context"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// removed says what a run has removed from penstock's own tables in a destination. The run's row stores it as JSON.
type removed struct {
	load.Trimmed
	Before time.Time `json:"before"`
	Error  string    `json:"error,omitempty"` // the first run of the next day tries again
}

// trim removes rows of penstock's own tables that are older than [Config].Keep. Only the first run of a day does this.
func (w *runRow) trim(ctx context.Context, r *run) {
	to, able := whole(w.dest.Destination).(load.Trimmer)
	now := r.Now().UTC()
	if !able || r.Keep == 0 || ctx.Err() != nil || w.before == "" || !runid.Time(w.before).UTC().Truncate(day).Before(now.Truncate(day)) {
		return
	}
	old := Old(r.Name, r.From, r.Streams, r.Keep, r.KeepEvents, now)
	n, err := to.Trim(ctx, old)
	if n == (load.Trimmed{}) && err == nil {
		return
	}
	w.removed = &removed{Trimmed: n, Before: old.Before}
	if err != nil {
		w.removed.Error = err.Error()
	}
}

// Old describes the rows of penstock's own tables that a pipeline no longer keeps, because they are older than keep. If
// keepEvents is 0, webhook events stay.
func Old(name, source string, streams []schemas.Stream, keep, keepEvents time.Duration, now time.Time) load.Retention {
	now = now.UTC()
	r := load.Retention{Pipeline: name, Source: source, Before: now.Add(-keep), Now: now}
	if keepEvents > 0 {
		r.EventsBefore = now.Add(-keepEvents)
	}
	for _, s := range streams {
		r.Tables = append(r.Tables, s.Table.Name)
	}
	return r
}

const day = 24 * time.Hour
