package pipeline

import (
	"context"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/load"
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
	tables := make([]string, len(r.Streams))
	for i, s := range r.Streams {
		tables[i] = s.Table.Name
	}
	before, events := now.Add(-r.Keep), time.Time{}
	if r.KeepEvents > 0 {
		events = now.Add(-r.KeepEvents)
	}
	n, err := to.Trim(ctx, load.Retention{Pipeline: r.Name, Source: r.From, Tables: tables, Before: before, EventsBefore: events, Now: now})
	if n == (load.Trimmed{}) && err == nil {
		return
	}
	w.removed = &removed{Trimmed: n, Before: before}
	if err != nil {
		w.removed.Error = err.Error()
	}
}

const day = 24 * time.Hour
