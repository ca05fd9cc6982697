package facts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Limits of a snapshot. If there are more rows, only the newest are kept. // Invariant 6
const (
	mostRuns    = 10_000
	mostRejects = 5_000
	mostChanges = 20_000
	mostChecks  = 20_000
	mostStreams = 30_000  // streams of all sources together; if there are more, the streams of a source are read on request
	mostBeats   = 24      // last passes of a stream that stay in memory
	heldBeats   = 100_000 // last passes that stay in memory, for all streams together
	mostProofs  = 20      // runs whose passes are in memory; the passes of other runs are read on request
	mostPasses  = 20_000  // passes of all runs in memory
	mostRaw     = 500     // longest text of a reject, in bytes; longer texts are cut
)

// snapshot is the content of penstock's own tables in a destination, newest first. It does not change.
type snapshot struct {
	part         DestinationPart
	runs         []board.Run
	streams      map[state.Key]*board.Stream
	omitted      map[string]bool       // sources whose streams are not all in memory, because there are too many
	last         map[state.Key]outcome // how the stream ended in the newest run that did not complete it
	newestProofs map[string]*proofs
	rejects      []board.Reject
	changes      []board.Change
	checks       []board.Check
	views        map[string]bool // names of the views that penstock has created

	announced map[state.Key]board.Coverage
}

// outcome says how a stream ended in one run.
type outcome struct {
	run    string
	status pipeline.Status
	err    string // why the stream is not complete
}

func (o outcome) apply(s *board.Stream) { s.Run, s.Status, s.Error = o.run, o.status, o.err }

type runStream struct{ source, stream string }

func readSnapshot(ctx context.Context, p DestinationPart) (*snapshot, error) {
	b := &snapshot{part: p, views: map[string]bool{}, streams: map[state.Key]*board.Stream{}, omitted: map[string]bool{}, last: map[state.Key]outcome{}, newestProofs: map[string]*proofs{}, announced: map[state.Key]board.Coverage{}}
	if p.Open == nil {
		return b, nil
	}
	d, err := p.Open(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b, nil
	case err != nil:
		return nil, err
	}
	for _, read := range []func(context.Context, load.Destination) error{b.readRuns, b.readStreams, b.readCertificates, b.readRejects, b.readChanges, b.readChecks} {
		if err == nil {
			err = read(ctx, d)
		}
	}
	if e := d.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	b.setStatuses()
	b.setChecks()
	return b, nil
}

func (b *snapshot) readStreams(ctx context.Context, d load.Destination) error {
	return scan(ctx, d, load.State, func(r row) {
		k := b.keyOf(r)
		if strings.HasPrefix(k.Stream, "_") {
			return // one of penstock's own tables
		}
		if s := b.stream(k); s != nil {
			s.Synced = r.time("updated_at")
			if w, ok := cursor.WebhooksOf(state.Cursor(r.text("cursor"))); ok {
				b.announced[k] = board.Coverage{Stream: k.Stream, Announced: w.Announced, Missed: w.Found}
			}
		}
	})
}

func (b *snapshot) keyOf(r row) state.Key {
	return state.Key{Pipeline: r.text("pipeline"), Source: cmp.Or(r.text(schemas.ColSource), b.part.Source), Stream: r.text("stream")}
}

// stream returns the entry of a stream, and adds it if needed. If there are too many entries, it returns nil and
// adds the source to b.omitted. If a visitor selects that source, all of its streams are read.
func (b *snapshot) stream(k state.Key) *board.Stream {
	s := b.streams[k]
	if s == nil && len(b.streams) >= mostStreams {
		b.omitted[k.Source] = true
		return nil
	}
	if s == nil {
		s = &board.Stream{Pipeline: k.Pipeline, Source: k.Source, Name: k.Stream, Table: strings.ReplaceAll(k.Stream, ".", "_"), Destination: b.part.Name}
		b.streams[k] = s
	}
	return s
}

// beats returns how many passes of each stream stay in memory: the more streams, the fewer passes. // Invariant 6
func (b *snapshot) beats() int { return min(mostBeats, max(1, heldBeats/max(1, len(b.streams)))) }

// runOf returns the run of a pass: r1 for r1#2, the second pass of run r1 over a stream.
func runOf(pass string) string {
	run, _, _ := strings.Cut(pass, "#")
	return run
}

func (b *snapshot) readCertificates(ctx context.Context, d load.Destination) error {
	newest := map[state.Key]string{}
	held := 0
	err := scan(ctx, d, load.Certificates, func(r row) {
		if n := b.newestProofs[runOf(r.text("run"))]; n != nil && !n.omitted {
			n.passes = append(n.passes, b.pass(r))
			if held++; held > mostPasses {
				held -= b.dropMostProofs()
			}
		}
		k := b.keyOf(r)
		s := b.stream(k)
		if s == nil {
			return
		}
		b.certify(s, newest[k], r)
		newest[k] = max(newest[k], r.text("run"))
	})
	most := b.beats()
	for _, s := range b.streams {
		s.Recent = lastBeats(s.Recent, most)
		for i := range s.Recent {
			s.Recent[i].Run = runOf(s.Recent[i].Run)
		}
	}
	return err
}

func (b *snapshot) certify(s *board.Stream, newest string, r row) {
	pass, verdict, c := r.text("run"), pipeline.Verdict(r.text("verdict")), countsOf(r)
	s.Recent = append(s.Recent, board.PassSummary{Run: pass, At: r.time("at"), Verdict: verdict, Fetched: c.Fetched, Changed: c.Written + c.Deleted})
	if most := b.beats(); len(s.Recent) > 4*most {
		s.Recent = lastBeats(s.Recent, most)
	}
	if pass < newest {
		return
	}
	w := decode[struct {
		Why   string
		Alive *int64 // nil: as many as distinct records
	}](r.text("witnesses"))
	s.Run, s.Verdict, s.Why, s.Counts = runOf(pass), verdict, w.Why, c
	alive := r.number("distinct")
	if w.Alive != nil {
		alive = *w.Alive
	}
	s.Rows = max(alive-c.Deleted, c.Written+c.Unchanged)
}

func lastBeats(all []board.PassSummary, most int) []board.PassSummary {
	slices.SortStableFunc(all, func(a, b board.PassSummary) int { return cmp.Or(strings.Compare(a.Run, b.Run), a.At.Compare(b.At)) })
	return slices.Clone(all[max(0, len(all)-most):])
}

func countsOf(r row) pipeline.Counts {
	return pipeline.Counts{Fetched: r.number("fetched"), Written: r.number("written"), Unchanged: r.number("unchanged"),
		Deduplicated: r.number("deduplicated"), Rejected: r.number("rejected"), Deleted: r.number("deleted")}
}

func (b *snapshot) pass(r row) board.Pass {
	witnesses := r.text("witnesses")
	p := board.Pass{
		Source: b.keyOf(r).Source, Stream: r.text("stream"), Destination: b.part.Name, Status: pipeline.StatusComplete, Verdict: pipeline.Verdict(r.text("verdict")),
		Why: decode[struct{ Why string }](witnesses).Why, Counts: countsOf(r), Pages: int(r.number("pages")), Requests: int(r.number("requests")), Ended: r.time("at"),
	}
	if json.Valid([]byte(witnesses)) {
		p.Witnesses = json.RawMessage(witnesses)
	}
	return p
}

func (b *snapshot) readRejects(ctx context.Context, d load.Destination) error {
	err := scan(ctx, d, load.Rejects, func(r row) {
		b.rejects = append(b.rejects, board.Reject{
			Run: runOf(r.text("run")), Pipeline: r.text("pipeline"), Source: b.keyOf(r).Source, Stream: r.text("stream"), Destination: b.part.Name, At: r.time("at"), Ordinal: r.number("ordinal"),
			Key: cut(r.text("key"), mostRaw), Pointer: r.text("pointer"), Wanted: r.text("wanted"), Raw: cut(r.text("raw"), mostRaw), Reason: cut(r.text("reason"), mostRaw),
			Record: r.flag("record"), Resolved: r.time("resolved_at"),
		})
		if len(b.rejects) > 2*mostRejects {
			b.rejects = lastRejects(b.rejects)
		}
	})
	b.rejects = lastRejects(b.rejects)
	return err
}

func lastRejects(all []board.Reject) []board.Reject {
	slices.SortStableFunc(all, func(a, b board.Reject) int {
		return cmp.Or(strings.Compare(b.Run, a.Run), strings.Compare(a.Stream, b.Stream), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return all[:min(len(all), mostRejects)]
}

func (b *snapshot) readChanges(ctx context.Context, d load.Destination) error {
	err := scan(ctx, d, load.Changes, func(r row) {
		if r.text("action") == load.ActionView {
			b.views[r.text("table")] = true
		}
		b.changes = append(b.changes, board.Change{
			At: r.time("at"), Run: runOf(r.text("run")), Destination: b.part.Name, Table: r.text("table"), Column: r.text("column"), Source: r.text("source"),
			Action: r.text("action"), From: r.text("from_type"), To: r.text("to_type"), Reason: r.text("reason"),
		})
		if len(b.changes) > 2*mostChanges {
			b.changes = lastChanges(b.changes)
		}
	})
	b.changes = lastChanges(b.changes)
	return err
}

func lastChanges(all []board.Change) []board.Change {
	slices.SortStableFunc(all, func(a, b board.Change) int { return b.At.Compare(a.At) })
	return all[:min(len(all), mostChanges)]
}

// setStatuses sets the status of each stream. A stream with a certificate is complete, unless the same run or a later
// run did not complete the stream.
func (b *snapshot) setStatuses() {
	for _, s := range b.streams {
		if s.Run != "" {
			s.Status = pipeline.StatusComplete
		}
	}
	for k, o := range b.last {
		if s := b.stream(k); s != nil && o.run >= s.Run {
			o.apply(s)
		}
	}
	clear(b.last)
}
