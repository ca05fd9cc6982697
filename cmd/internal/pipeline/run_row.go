package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/forecast"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state/plainerror"
)

// runCounts are the counts of a run in its row of [load.Runs]: sums over the attempts at the run.
type runCounts struct {
	Counts
	Requests int                 `json:"requests"`
	Pages    int                 `json:"pages"`
	Bytes    int64               `json:"bytes"`
	Backfill string              `json:"backfill,omitempty"`
	Forecast *forecast.Outlook   `json:"forecast,omitempty"`
	Streams  map[Status]int      `json:"streams"`
	Open     map[Status][]string `json:"open,omitempty"`
	Done     []string            `json:"done,omitempty"` // complete streams, for the next attempt at the run
	Words    map[string]string   `json:"words,omitempty"`
	Removed  *removed            `json:"removed,omitempty"`
	Attempts []RunAttempt        `json:"attempts,omitempty"` // the latest attempts; empty if there was only one attempt
}

// RunAttempt is one attempt at a run, in one destination. A run has several attempts if workers share its work, or if
// it was tried again because the source did not answer.
type RunAttempt struct {
	Started  time.Time `json:"started_at"`
	Ended    time.Time `json:"ended_at,omitzero"`
	Status   Status    `json:"status"`
	Requests int       `json:"requests"`
	Written  int64     `json:"written"`
	Error    string    `json:"error,omitempty"`
}

const (
	maxWords    = 300 // longest text of an error in the run's row, in bytes; longer texts are cut
	maxAttempts = 20  // most attempts that the run's row lists
)

// earlierAttempts is what the row of a run says about the attempts before this one.
type earlierAttempts struct {
	runCounts
	started time.Time
}

// begin reads the run's row, if an earlier attempt at the run has written it. // Invariant 14
func (w *runRow) begin(ctx context.Context, r *run) error {
	if w.before != r.Run {
		w.attempt = ""
		return nil
	}
	w.attempt = runid.After(r.Run, w.before, w.attempt) // makes the cursor differ from the stored one
	columns := []string{"run", "pipeline", "started_at", "ended_at", "status", "counts", "error"}
	return w.dest.Scan(ctx, load.Runs.Name, columns, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			if rowhash.Text(b.Column(0), i) != r.Run || rowhash.Text(b.Column(1), i) != r.Name {
				continue
			}
			e := &earlierAttempts{started: rowhash.Time(b.Column(2), i)}
			if err := json.Unmarshal([]byte(rowhash.Text(b.Column(5), i)), &e.runCounts); err != nil {
				return fmt.Errorf("read run: %w", err)
			}
			last := RunAttempt{
				Started: e.started, Ended: rowhash.Time(b.Column(3), i), Status: Status(rowhash.Text(b.Column(4), i)),
				Requests: e.Requests, Written: e.Written, Error: short(rowhash.Text(b.Column(6), i)),
			}
			if len(e.Attempts) == 0 {
				e.Attempts = []RunAttempt{last}
			}
			if n := len(e.Attempts) - 1; e.Attempts[n].Status == StatusRunning {
				e.Attempts[n].Status, e.Attempts[n].Error = StatusFailed, "the process was killed before the attempt ended"
			}
			w.earlier = e
		}
		return nil
	})
}

func short(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxWords)], "")
}

// row returns the row of the run in the destination of w.
func (r *run) row(rep Report, w *runRow) ([]any, error) {
	var ended any
	started := r.started
	counts := runCounts{Removed: w.removed, Backfill: r.backfill(), Streams: map[Status]int{}, Open: map[Status][]string{}, Words: map[string]string{}}
	here := rep.in(w.dest.Name)
	if rep.Status != StatusRunning {
		t := here.Totals()
		counts.Counts, counts.Requests, counts.Pages, counts.Bytes = t.Counts, t.Requests, t.Pages, t.Bytes
		ended, counts.Forecast = rep.Ended, rep.Forecast
	}
	for _, s := range here.Streams {
		counts.Streams[s.Status]++
		if s.Status == StatusComplete && r.Config.Run != "" { // a run without a given id has only one attempt
			counts.Done = append(counts.Done, s.Title())
		}
		if s.Status != StatusComplete {
			counts.Open[s.Status] = append(counts.Open[s.Status], s.Title())
			if s.Err != nil {
				counts.Words[s.Title()] = short(plainerror.Text(s.Err.Error()))
			}
		}
	}
	status, text := rep.Status, summary(rep)
	if w.earlier != nil {
		this := RunAttempt{Started: r.started, Ended: rep.Ended, Status: rep.Status, Requests: counts.Requests, Written: counts.Written}
		if text, ok := text.(string); ok {
			this.Error = short(text)
		}
		started = w.earlier.started
		counts.follow(w.earlier.runCounts, here.Streams, this)
		if status == StatusComplete && len(counts.Open) > 0 {
			status = StatusPartial // an earlier attempt has left streams incomplete, and this attempt has not read them
		}
	}
	all, err := json.Marshal(counts)
	if err != nil {
		return nil, fmt.Errorf("write run: %w", err)
	}
	return []any{r.Run, r.Name, started, ended, string(status), string(all), text}, nil
}

// follow adds the counts of earlier attempts at the run to c, which has the counts of this attempt. A stream gets the
// status of the last attempt that has read it.
func (c *runCounts) follow(earlier runCounts, streams []StreamReport, this RunAttempt) {
	c.Counts = c.Counts.Add(earlier.Counts)
	c.Requests += earlier.Requests
	c.Pages += earlier.Pages
	c.Bytes += earlier.Bytes
	if c.Removed == nil {
		c.Removed = earlier.Removed
	}
	again := map[string]bool{}
	for _, s := range streams {
		again[s.Title()] = true
	}
	for _, title := range earlier.Done {
		if !again[title] {
			c.Streams[StatusComplete]++
			c.Done = append(c.Done, title)
		}
	}
	for status, titles := range earlier.Open {
		for _, title := range titles {
			if again[title] {
				continue
			}
			c.Streams[status]++
			c.Open[status] = append(c.Open[status], title)
			if text := earlier.Words[title]; text != "" {
				c.Words[title] = text
			}
		}
	}
	c.Attempts = append(slices.Clone(earlier.Attempts), this)
	c.Attempts = c.Attempts[max(0, len(c.Attempts)-maxAttempts):]
}
