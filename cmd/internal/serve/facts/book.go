package facts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// What is held of a destination's own tables, the newest of each. // Invariant 6
const (
	mostRuns    = 10_000
	mostRejects = 5_000
	mostChanges = 20_000
	mostBeats   = 24  // of a stream
	mostProofs  = 20  // runs whose witnesses are at hand; those of others are read when asked for
	mostRaw     = 500 // bytes of a value that was rejected
)

// book is what a destination's own tables say, the newest first. It is not changed
// once it is made.
type book struct {
	place   Place
	runs    []board.Run
	streams map[state.Key]*board.Stream
	passes  map[string][]board.Pass // by run
	rejects []board.Reject
	changes []board.Change
	open    map[string]map[string]openStream // by run and stream

	announced map[state.Key]board.Coverage // of streams that webhooks are for
}

// openStream is a stream that a run did not bring to its goal.
type openStream struct {
	status pipeline.Status
	words  string
}

// readBook reads a destination's own tables.
func readBook(ctx context.Context, p Place) (*book, error) {
	b := &book{place: p, streams: map[state.Key]*board.Stream{}, passes: map[string][]board.Pass{}, open: map[string]map[string]openStream{}, announced: map[state.Key]board.Coverage{}}
	d, err := p.Open(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b, nil
	case err != nil:
		return nil, err
	}
	for _, read := range []func(context.Context, load.Destination) error{b.readRuns, b.readStreams, b.readCertificates, b.readRejects, b.readChanges} {
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
	b.stand()
	return b, nil
}

// counts is what a run's row tells of itself.
type counts struct {
	pipeline.Counts
	Requests int
	Streams  map[pipeline.Status]int
	Open     map[pipeline.Status][]string
	Words    map[string]string
}

func (b *book) readRuns(ctx context.Context, d load.Destination) error {
	err := scan(ctx, d, load.Runs, func(r row) {
		c := decode[counts](r.text("counts"))
		run := board.Run{
			ID: r.text("run"), Pipeline: r.text("pipeline"), Destinations: []string{b.place.Name}, Status: pipeline.Status(r.text("status")),
			Started: r.time("started_at"), Ended: r.time("ended_at"), Counts: c.Counts, Requests: c.Requests, Error: r.text("error"),
		}
		open := map[string]openStream{}
		for status, n := range c.Streams {
			run.Streams += n
			for _, s := range c.Open[status] {
				open[s] = openStream{status, c.Words[s]}
			}
		}
		run.Open = len(open)
		b.open[run.ID] = open
		b.runs = append(b.runs, run)
	})
	slices.SortFunc(b.runs, func(x, y board.Run) int { return strings.Compare(y.ID, x.ID) })
	for len(b.runs) > mostRuns {
		delete(b.open, b.runs[len(b.runs)-1].ID)
		b.runs = b.runs[:len(b.runs)-1]
	}
	return err
}

func (b *book) readStreams(ctx context.Context, d load.Destination) error {
	return scan(ctx, d, load.State, func(r row) {
		if k := (state.Key{Pipeline: r.text("pipeline"), Stream: r.text("stream")}); !strings.HasPrefix(k.Stream, "_") { // else penstock's own
			b.stream(k).Synced = r.time("updated_at")
			if w, ok := pipeline.WebhooksOf(state.Cursor(r.text("cursor"))); ok {
				b.announced[k] = board.Coverage{Stream: k.Stream, Announced: w.Announced, Missed: w.Found}
			}
		}
	})
}

// stream is what is told of a stream, begun where nothing is yet.
func (b *book) stream(k state.Key) *board.Stream {
	s := b.streams[k]
	if s == nil {
		s = &board.Stream{Pipeline: k.Pipeline, Name: k.Stream, Table: strings.ReplaceAll(k.Stream, ".", "_"), Destination: b.place.Name}
		b.streams[k] = s
	}
	return s
}

// runOf is the run that a pass began in; its second pass over a stream is called
// run#2.
func runOf(pass string) string {
	run, _, _ := strings.Cut(pass, "#")
	return run
}

func (b *book) readCertificates(ctx context.Context, d load.Destination) error {
	near := map[string]bool{}
	for _, r := range b.runs[:min(len(b.runs), mostProofs)] {
		near[r.ID] = true
	}
	newest := map[state.Key]string{}
	err := scan(ctx, d, load.Certificates, func(r row) {
		k := state.Key{Pipeline: r.text("pipeline"), Stream: r.text("stream")}
		pass, s := r.text("run"), b.stream(k)
		c, verdict := countsOf(r), pipeline.Verdict(r.text("verdict"))
		s.Recent = append(s.Recent, board.Beat{Run: pass, At: r.time("at"), Verdict: verdict, Fetched: c.Fetched, Changed: c.Written + c.Deleted})
		if len(s.Recent) > 4*mostBeats {
			s.Recent = lastBeats(s.Recent)
		}
		if pass >= newest[k] {
			w := decode[struct {
				Why   string
				Alive int64
			}](r.text("witnesses"))
			newest[k] = pass
			s.Run, s.Verdict, s.Why, s.Counts = runOf(pass), verdict, w.Why, c
			s.Rows = max(w.Alive-c.Deleted, c.Written+c.Unchanged)
		}
		if near[runOf(pass)] {
			b.passes[runOf(pass)] = append(b.passes[runOf(pass)], b.pass(r))
		}
	})
	for _, s := range b.streams {
		s.Recent = lastBeats(s.Recent)
		for i := range s.Recent {
			s.Recent[i].Run = runOf(s.Recent[i].Run)
		}
	}
	return err
}

func lastBeats(all []board.Beat) []board.Beat {
	slices.SortStableFunc(all, func(a, b board.Beat) int { return cmp.Or(strings.Compare(a.Run, b.Run), a.At.Compare(b.At)) })
	return slices.Clone(all[max(0, len(all)-mostBeats):])
}

func countsOf(r row) pipeline.Counts {
	return pipeline.Counts{Fetched: r.number("fetched"), Written: r.number("written"), Unchanged: r.number("unchanged"),
		Deduplicated: r.number("deduplicated"), Rejected: r.number("rejected"), Deleted: r.number("deleted")}
}

// pass is what a certificate says of one pass.
func (b *book) pass(r row) board.Pass {
	witnesses := r.text("witnesses")
	p := board.Pass{
		Stream: r.text("stream"), Destination: b.place.Name, Status: pipeline.StatusComplete, Verdict: pipeline.Verdict(r.text("verdict")),
		Why: decode[struct{ Why string }](witnesses).Why, Counts: countsOf(r), Pages: int(r.number("pages")), Requests: int(r.number("requests")), Ended: r.time("at"),
	}
	if json.Valid([]byte(witnesses)) {
		p.Witnesses = json.RawMessage(witnesses)
	}
	return p
}

func (b *book) readRejects(ctx context.Context, d load.Destination) error {
	err := scan(ctx, d, load.Rejects, func(r row) {
		b.rejects = append(b.rejects, board.Reject{
			Run: runOf(r.text("run")), Pipeline: r.text("pipeline"), Stream: r.text("stream"), Destination: b.place.Name, At: r.time("at"), Ordinal: r.number("ordinal"),
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

func (b *book) readChanges(ctx context.Context, d load.Destination) error {
	err := scan(ctx, d, load.Changes, func(r row) {
		b.changes = append(b.changes, board.Change{
			At: r.time("at"), Run: runOf(r.text("run")), Destination: b.place.Name, Table: r.text("table"), Column: r.text("column"), Source: r.text("source"),
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

// stand says how each stream stands: as its newest certificate does, unless a
// later run has left it open.
func (b *book) stand() {
	for _, s := range b.streams {
		if s.Run != "" {
			s.Status = pipeline.StatusComplete
		}
	}
	for _, r := range slices.Backward(b.runs) { // the newest has the last word
		for name, o := range b.open[r.ID] {
			if s := b.stream(state.Key{Pipeline: r.Pipeline, Stream: name}); r.ID >= s.Run {
				s.Run, s.Status, s.Error = r.ID, o.status, o.words
			}
		}
	}
}

// proofs are the passes of a run, read now where they are not at hand.
func (b *book) proofs(ctx context.Context, run string) ([]board.Pass, error) {
	if all, ok := b.passes[run]; ok {
		return all, nil
	}
	ctx, cancel := context.WithTimeout(ctx, proofsWithin)
	defer cancel()
	d, err := b.place.Open(ctx)
	if err != nil {
		return nil, err
	}
	var all []board.Pass
	err = scan(ctx, d, load.Certificates, func(r row) {
		if runOf(r.text("run")) == run {
			all = append(all, b.pass(r))
		}
	})
	if e := d.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, fmt.Errorf("read certificates of run %s: %w", run, err)
	}
	return all, nil
}

const proofsWithin = 20 * time.Second
