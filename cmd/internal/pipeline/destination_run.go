package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/files"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/parents"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// errCommit cancels a pass when no destination is left to commit to. The reports of the destinations say why.
var errCommit = errors.New("no destination is left to commit to")

// destinationRun is what a run does to one destination of a stream, over all of the stream's passes.
type destinationRun struct {
	dest     Destination
	key      state.Key
	stored   state.Cursor
	memory   string          // what the destination stores about the stream, as text: see learn
	main     cursor.Position // the stored position
	pos      cursor.Position
	start    cursor.Position // position when the run began; zero if an interrupted pass is continued
	folder   files.Folder
	wanted   bool // the destination has loaded child streams of this stream
	rejects  *reject.Open
	lagged   error // why it needs a pass that is not shared with other destinations
	trouble  error // why it dropped out of a pass; nil again once its own pass begins
	broken   bool
	finished bool // the run makes no further pass for this destination
	report   StreamReport

	// What the passes so far have shown.
	before             *reading
	readings           []*rowhash.Digest
	whole              int    // number of passes from the beginning of the list, including this one
	longest            int64  // records of the longest whole pass so far
	steady             bool   // the list again had longest records, but some of them were new
	over               string // id of the last finished pass that read every record
	wholeNext          bool   // the next pass reads the whole list
	incrementalRefuted cursor.Refutation
	noticed            []drift.Notice // notices to report with the next conclusive pass
	parentState

	passRecord

	// The open transaction. It stays open between two groups only if a pass is one transaction.
	tx           load.Tx
	tried        state.Cursor
	held         overlay.Withheld
	learning     string       // the value of memory after the commit
	rejectsAfter *reject.Open // the value of rejects after the commit
}

// passRecord is what one pass did to one destination. Each pass begins with a new one.
type passRecord struct {
	begun   cursor.Position  // the stored position when the pass began
	resumed bool             // an earlier process began the pass
	prior   *reading         // the reading before the pass
	overlay *overlay.Overlay // deltas during the pass; nil if none are allowed

	parentage *parents.Stored // the stored parents; nil if the pass skips none
	left      *parents.Left   // the rows that the pass did not contain; nil before its end
	found     *findings       // answers about missing rows; nil until they are requested

	counts     Counts
	sealed     Counts // the part of counts that is committed
	inserted   int64
	overlooked int64 // rows that earlier incremental passes had missed
	sealedPast int64 // the part of overlooked that is committed

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

// open reads the position of k. After an interrupted pass, most passes continue there. A full reading and a pass in
// one transaction start at the beginning.
func (k *destinationRun) open(ctx context.Context, st *streamRun) error {
	if k.dest.Destination == nil {
		return nil
	}
	stored, err := k.cursor(ctx, st.run)
	if err != nil {
		return err
	}
	k.stored = stored
	if k.wanted, err = k.children(ctx, st.run); err != nil {
		return err
	}
	pos, err := k.ownPosition(stored)
	if err != nil {
		return err
	}
	inPlace, err := k.inPlace(ctx, st)
	if err != nil {
		return err
	}
	switch b := st.Options.Backfill; {
	case b == nil:
	case b.StartOver:
		pos = cursor.Position{}
	case pos.Ended:
		k.wasDone(pos)
		return nil
	}
	k.longest, k.steady, k.passes, k.doubt, k.incrementalRefuted, k.over = pos.Longest, pos.Steady, pos.Passes, pos.ParentsUnsure, stillRefuted(pos.Refuted, st.stream), pos.LastWhole()
	if !inPlace {
		k.allParents = true
		return nil
	}
	if k.report.Backfill == "" && k.owes() {
		k.allParents = true
		if !pos.MidPass() {
			pos.Source = "" // the event may also concern records that an incremental pass leaves out
		}
	}
	if !pos.MidPass() {
		k.start = pos
	}
	switch {
	case st.Options.Full && (!pos.Ended || st.rules() == ""), pos.MidPass() && !st.parts(), pos.MidPass() && pos.Rules != st.rules():
		return err
	case pos.Rules != st.rules():
		pos.Source = "" // unchanged records must be mapped again too
	case pos.Ended && pos.Rules != "":
		forgotten, failed := k.hasForgottenRows(ctx, st)
		if failed != nil {
			return failed
		}
		if forgotten {
			pos.Source = ""
		}
	}
	k.pos = pos
	return err
}

// keep returns the position of the last pass that was not contradicted. The cursor must not cover records that did
// not arrive.
func (k *destinationRun) keep(p *pass) cursor.Position {
	pos := k.start
	pos.TouchedBy = p.id // makes the cursor differ; the position stays the same
	return pos
}

// children reports whether the destination has loaded a child stream. Only a proven list of parents allows
// rows of child streams to be deleted.
func (k *destinationRun) children(ctx context.Context, r *run) (bool, error) {
	for _, s := range r.Streams {
		if s.Parent != k.key.Stream {
			continue
		}
		at, err := k.dest.Cursor(ctx, r.Key(s.Name))
		if err != nil {
			return false, err
		}
		if at != "" {
			return true, nil
		}
	}
	return false, nil
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

func (k *destinationRun) enter(ctx context.Context, p *pass) ([]schemas.Table, error) {
	k.passRecord = passRecord{begun: k.main, resumed: p.resumes, prior: k.before}
	if !p.resumes {
		k.whole++
	}
	if k.pos.Pass != "" {
		k.passes, k.doubt = k.pos.Passes, k.pos.ParentsUnsure
	}
	if k.dest.Destination == nil {
		return nil, nil
	}
	tables, err := k.dest.Tables(ctx, p.stream.Table.Name)
	if err == nil && k.rejects == nil {
		k.rejects, err = p.openRejects(ctx, k.dest, p.stream.Name)
	}
	if err == nil && p.parents != nil {
		past := parents.Past{Passes: k.passes, Unsure: k.doubt, Trusted: k.pos.Pass != "" && !k.allParents}
		k.parentage, err = k.parentTable(p).Recall(ctx, p.parents, past, tables)
	}
	return tables, err
}

// commit makes g durable together with the position after it. // Invariant 2
func (k *destinationRun) commit(ctx context.Context, p *pass, g *group) error {
	if k.dest.Destination == nil {
		k.dryCommit(p, g)
		return nil
	}
	if g.end != nil && k.parentage != nil && !p.resumes && k.left == nil {
		var err error
		if k.left, err = k.parentTable(p).Review(ctx, p.parents, k.parentage, g.end.Skipped > 0, p.id, p.Now()); err != nil {
			return err
		}
	}
	if err := k.folder.Keep(g.files); err != nil {
		return err
	}
	for range 2 { // the second attempt has the answers about the missing rows // Invariant 15
		if again, err := k.attempt(ctx, p, g); err != nil || !again {
			return err
		}
	}
	return errors.New("missing rows were requested twice")
}

// attempt writes g and commits it. It returns true, and commits nothing, if missing rows had to be requested first.
// Once their answers are known, no second request follows.
func (k *destinationRun) attempt(ctx context.Context, p *pass, g *group) (again bool, err error) {
	if err := k.write(ctx, p, g); err != nil {
		return false, err
	}
	if g.end == nil && !p.parts() && !g.spill {
		return false, nil // the transaction stays open until the pass is complete
	}
	if err := k.removeLeft(ctx, p, g); err != nil {
		return false, err
	}
	out, err := k.apply(ctx, p.sweep(g, k.found == nil))
	k.counts.Unchanged, k.counts.Deduplicated = k.counts.Unchanged+k.held.Fresh, k.counts.Deduplicated+k.held.Again
	if g.end != nil && g.end.Skipped > 0 {
		out = k.left.Correct(out)
	}
	defer batch.Release(out.Keys)
	if err != nil || g.end == nil && !p.parts() {
		return false, err
	}
	if err := k.balance(g); err != nil {
		return false, err
	}
	if g.end == nil {
		return false, k.seal(ctx, p, g)
	}
	switch e, err := conclude(ctx, k, p, g, out); {
	case err != nil:
		return false, err
	case e.decision.Action == proof.RequestMissing:
		k.requestMissing(ctx, p, g, out.Keys)
		return true, nil
	case e.givesUp():
		k.rollback()
		return false, nil
	}
	return false, k.seal(ctx, p, g)
}

// requestMissing rolls the transaction back and requests the missing records. The transaction must not stay open
// meanwhile, because the requests may take long. The group is then written once more, with the answers.
func (k *destinationRun) requestMissing(ctx context.Context, p *pass, g *group, missing []arrow.RecordBatch) {
	k.rollback()
	k.counts, k.overlooked = k.sealed, k.sealedPast
	p.rowCheck.request(ctx, g.control, keysOf(missing))
	k.found = p.rowCheck.findings(missing)
}

func (k *destinationRun) write(ctx context.Context, p *pass, g *group) error {
	if k.tx == nil {
		tx, err := k.dest.Begin(ctx, k.key, k.stored, p.Config.pass(p.stream, p.id, !p.resumes))
		if err != nil {
			return err
		}
		k.tx = tx
	}
	k.held.Release()
	var err error
	if k.held, err = k.overlay.Withhold(p.stream, g.batches); err != nil {
		return err
	}
	if err := k.writeOlder(ctx, g); err != nil {
		return err
	}
	k.refute(p, g)
	for _, b := range k.held.Batches {
		if err := k.tx.Write(ctx, b.Table, b.Batch); err != nil {
			return err
		}
	}
	if g.end == nil && p.parts() {
		if err := k.learn(ctx, p, p.known); err != nil {
			return err
		}
	}
	if err := k.writeRejects(ctx, p, g); err != nil {
		return err
	}
	if err := k.left.Write(ctx, k.tx); err != nil {
		return err
	}
	return k.parentTable(p).Write(ctx, k.tx, p.id, p.Now(), g.parents, p.limits.batchRows)
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

// balance checks that each record of the pass so far is counted exactly once. // Invariant 14
func (k *destinationRun) balance(g *group) error {
	c := &k.counts
	c.Fetched, c.Rejected = g.total.fetched, g.total.rejected
	if sum := c.Written + c.Unchanged + c.Deduplicated + c.Rejected; c.Fetched != sum {
		return fmt.Errorf("counts do not add up: fetched %d, but written %d + unchanged %d + deduplicated %d + rejected %d = %d",
			c.Fetched, c.Written, c.Unchanged, c.Deduplicated, c.Rejected, sum)
	}
	return nil
}

func (k *destinationRun) seal(ctx context.Context, p *pass, g *group) error {
	pos := g.next
	pos.Rules, pos.LastComplete = p.rules(), k.over
	if g.end != nil && !g.end.Partial && g.end.Skipped == 0 && g.end.Rule != extract.RuleWindows {
		pos.LastComplete = "" // "" means that the pass itself is the last complete one
	}
	if g.end != nil && k.wholeNext {
		pos.Source = "" // the next pass reads the whole list
	}
	if k.refuted {
		pos = k.keep(p)
	}
	pos.Longest, pos.Steady, pos.Passes, pos.ParentsUnsure, pos.Refuted = k.longest, k.steady, k.passes, k.doubt, k.incrementalRefuted
	stored, err := k.storedPosition(p, g, pos)
	if err != nil {
		return err
	}
	stored.Address = p.Origins[p.stream.Name].Address
	next := stored.Encode()
	k.tried = next
	if err := k.tx.Commit(ctx, next); err != nil {
		return err
	}
	k.tx, k.stored, k.main, k.pos, k.sealed, k.over = nil, next, stored, pos, k.counts, pos.LastWhole()
	k.memory, k.learning, k.sealedPast = cmp.Or(k.learning, k.memory), "", k.overlooked
	if k.rejectsAfter != nil {
		k.rejects, k.rejectsAfter = k.rejectsAfter, nil
	}
	k.held.Settle(k.overlay, p.lock)
	return nil
}
