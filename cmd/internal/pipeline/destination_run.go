package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/files"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/parents"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// errCommit cancels a pass when no destination is left to commit to. The reports of the destinations say why.
var errCommit = errors.New("no destination is left to commit to")

// destinationRun is the part of a run that concerns one destination of a stream. It covers all of the stream's passes.
type destinationRun struct {
	dest     Destination
	key      state.Key
	stored   state.Cursor
	memory   string          // what the destination stores about the stream, as text: see learn()
	main     cursor.Position // the stored position
	pos      cursor.Position
	start    cursor.Position // position when the run began; zero if an interrupted pass is continued
	folder   files.Folder
	wanted   bool // the destination has loaded child streams of this stream
	rejects  *reject.Open
	lagged   error // why the destination needs a pass that is not shared with other destinations
	trouble  error // why the destination dropped out of a pass; nil again once its own pass begins
	broken   bool
	finished bool // the run makes no further pass for this destination
	surveyed bool // the stored cursor comes from the survey, and no pass of this run has committed
	report   StreamReport
	stated   stated // what the report says about the last pass whose end is committed

	// What the passes so far have shown.
	before             *reading
	readings           []*rowhash.Digest
	whole              int    // number of passes from the beginning of the list, including the current pass
	longest            int64  // records of the longest whole pass so far
	steady             bool   // the last whole pass had as many records as the longest whole pass, but some of them were new
	over               string // id of the last finished pass that read every record
	wholeNext          bool   // the next pass reads the whole list
	incrementalRefuted cursor.Refutation
	noticed            []drift.Notice // notices to report with the next pass, unless that pass is repeated
	parentState

	passRecord

	// The open transaction. It stays open between two groups only if a pass is one transaction.
	tx           load.Tx
	tried        state.Cursor
	held         overlay.Withheld
	learning     string       // the value of k.memory after the commit
	rejectsAfter *reject.Open // the value of k.rejects after the commit
}

// stated is what a report says about a pass.
type stated struct {
	verdict Verdict
	reasons string
}

// passRecord is what one pass did to one destination. Each pass begins with a new passRecord.
type passRecord struct {
	begun   cursor.Position  // the stored position when the pass began
	resumed bool             // an earlier process began the pass
	prior   *reading         // the reading before the pass
	overlay *overlay.Overlay // deltas during the pass; nil if none are allowed

	parentage *parents.Stored // the stored parents; nil if the pass skips none
	left      *parents.Left   // the rows that the pass did not contain; nil before its end
	found     *findings       // answers about missing rows; nil until they are requested

	counts     Counts
	sealed     Counts // the part of k.counts that is committed
	inserted   int64
	overlooked int64 // rows that earlier incremental passes had missed
	sealedPast int64 // the part of k.overlooked that is committed

	out     bool   // the destination dropped out of the pass
	refuted bool   // the pass is contradicted, so the position in the cursor does not change
	ended   *claim // what the pass proves, once its end is committed
}

func newDestinationRuns(r *run, s schemas.Stream) []*destinationRun {
	dests := r.Destinations
	if r.Options.DryRun {
		dests = []Destination{{}}
	}
	destinations := make([]*destinationRun, len(dests))
	for i, d := range dests {
		k := &destinationRun{dest: d, folder: files.Folder(r.Files[d.Name]), key: r.Key(s.Name), report: StreamReport{
			Stream: s.Name, Table: s.Table.Name, Destination: d.Name, Backfill: r.backfill(),
		}}
		k.memory = r.memory[d.Name][s.Name].text()
		if err := r.health.leftOut(d.Name); err != nil {
			k.fail(err)
		}
		destinations[i] = k
	}
	return destinations
}

func (k *destinationRun) fail(err error) {
	k.finished, k.broken = true, true
	k.report.Status, k.report.Err = "", fmt.Errorf("%s to %s: %w", k.key.Stream, k.dest.Name, err)
}

func (k *destinationRun) close(ctx context.Context, err error, d time.Duration) StreamReport {
	k.rollback()
	r := k.report
	r.Duration = d
	if a, err := k.main.Applied(); err == nil && k.main.Events != "" {
		w := a.Webhooks()
		r.Webhooks = &w
	}
	if r.Err == nil && !k.finished {
		r.Err = err
		if k.lagged != nil {
			r.Err = errors.Join(err, k.lagged)
		}
	}
	if r.Status == "" {
		r.Status, r.NotBefore = classify(ctx, r.Err)
	}
	if next := advice(r.Err); next != "" {
		r.Err = fmt.Errorf("%w; %s", r.Err, next)
	}
	return r
}

func (k *destinationRun) rollback() {
	k.learning, k.rejectsAfter = "", nil
	k.held.Release()
	if k.tx != nil {
		_ = k.tx.Rollback() // nothing in the transaction was reported as committed
		k.tx = nil
	}
}

func (k *destinationRun) apply(ctx context.Context, s load.Sweep) (load.Outcome, error) {
	out, err := k.tx.Apply(ctx, s)
	if err != nil {
		return out, err
	}
	k.counts.Written += out.Written
	k.counts.Unchanged += out.Unchanged
	k.counts.Deduplicated += out.Deduplicated
	k.counts.Deleted += out.Deleted
	k.inserted += out.Inserted
	return out, nil
}

type parentState struct {
	passes     int64
	doubt      string
	allParents bool
	again      map[uint64]bool // ids of parents that the next pass must request even if they are unchanged
}

func (k *destinationRun) cursor(ctx context.Context, r *run) (state.Cursor, error) {
	at, err := k.dest.Cursor(ctx, k.key)
	r.health.noteCursorRead(k.dest.Name, err)
	return at, err
}
