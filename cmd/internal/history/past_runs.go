package history

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/forecast"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/load"
)

// PastRuns is what a destination stores about earlier runs.
type PastRuns struct {
	Streams  map[string]forecast.History
	Last     forecast.RunDuration
	PageSize float64
}

// ReadPastRuns reads how many records, pages and requests each stream took in the last run that read it. It also
// reads the totals of the last complete run.
func ReadPastRuns(ctx context.Context, d load.Destination, name string) (PastRuns, error) {
	past := PastRuns{Streams: map[string]forecast.History{}}
	newest := map[string]string{}
	err := Scan(ctx, d, load.Certificates, func(r Row) error {
		stream, run := r.Text("stream"), r.Text("run")
		if r.Text("pipeline") != name || run < newest[stream] {
			return nil
		}
		h := past.Streams[stream]
		if run != newest[stream] {
			h = forecast.History{}
		}
		newest[stream] = run
		h.Records = max(h.Records, r.Number("fetched"))
		h.Pages += r.Number("pages")
		h.Requests += r.Number("requests")
		addWitnesses(&h, r.Text("witnesses"))
		past.Streams[stream] = h
		return nil
	})
	if err == nil {
		err = past.readProbes(ctx, d, name, newest)
	}
	return past, errors.Join(err, past.readRuns(ctx, d, name))
}

// addWitnesses adds the numbers of parents and windows that a certificate states for a pass.
func addWitnesses(h *forecast.History, text string) {
	var w struct {
		Parents, Skipped, Windows int64
		Reread, Partial           bool
	}
	if json.Unmarshal([]byte(text), &w) != nil {
		return
	}
	h.Reread = h.Reread || w.Reread
	if w.Skipped == 0 {
		h.Parents = max(h.Parents, w.Parents)
	}
	if !w.Partial {
		h.Windows = max(h.Windows, w.Windows)
	}
}

// readProbes adds to `past` how many requests the probes of a stream took, if the stream was probed in its newest run.
func (past *PastRuns) readProbes(ctx context.Context, d load.Destination, name string, newest map[string]string) error {
	known, err := pipeline.Recall(ctx, d, name)
	for stream, m := range known {
		if h, ok := past.Streams[stream]; ok && m.LearnedAt.After(runid.Time(newest[stream])) {
			h.Probes = int64(m.Requests)
			past.Streams[stream] = h
		}
	}
	return err
}

// readRuns finds the last complete run that sent requests.
func (past *PastRuns) readRuns(ctx context.Context, d load.Destination, name string) error {
	newest := ""
	return Scan(ctx, d, load.Runs, func(r Row) error {
		run, took := r.Text("run"), r.Time("ended_at").Sub(r.Time("started_at"))
		if r.Text("pipeline") != name || r.Text("status") != string(pipeline.StatusComplete) || run < newest || took <= 0 {
			return nil
		}
		var c struct{ Requests, Pages, Bytes float64 }
		if json.Unmarshal([]byte(r.Text("counts")), &c) != nil || c.Requests == 0 {
			return nil
		}
		newest = run
		past.Last = forecast.RunDuration{Requests: c.Requests, Seconds: took.Seconds()}
		past.PageSize = c.Bytes / max(c.Pages, 1)
		return nil
	})
}
