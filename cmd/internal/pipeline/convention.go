package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Negotiator is implemented by sources that can probe how an endpoint answers, such as *extract.Client.
type Negotiator interface {
	// Negotiate probes the endpoint of s and returns what it found out. If it cannot find out how to read the list, the
	// error says why, and the Convention has only the number of requests.
	Negotiate(ctx context.Context, s schemas.Stream) (extract.Convention, error)
}

// StreamCompleter is implemented by sources that also read streams that no run requests, such as parents that are
// read only for their children. *extract.Client is one.
type StreamCompleter interface {
	// Settle sets the function that returns how such a stream is read. It is called before the first pass, and may be
	// called again.
	Settle(settle func(schemas.Stream) schemas.Stream)
}

// Memory is what a destination stores about one stream of a pipeline: how its endpoint answers, and a profile of
// the last whole pass.
type Memory struct {
	extract.Convention
	Profile *drift.Profile `json:"profile,omitempty"`
	Rules   string         `json:"rules,omitempty"` // fingerprint of the stream's filter in that pass
}

// Empty reports whether there is nothing to store.
func (m Memory) Empty() bool { return m.Of == "" && m.Profile == nil }

func (m Memory) text() string {
	if m.Empty() {
		return ""
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Memories maps stream names to what a destination stores about them.
type Memories map[string]Memory

// Recall reads what d stores about the pipeline's streams.
func Recall(ctx context.Context, d load.Destination, pipeline string) (Memories, error) {
	all := Memories{}
	err := d.Scan(ctx, load.Conventions.Name, []string{"pipeline", "stream", "convention"}, func(b arrow.RecordBatch) error {
		columns := [3]*array.String{}
		for i := range columns {
			c, ok := b.Column(i).(*array.String)
			if !ok {
				return fmt.Errorf("column %q is not text", b.ColumnName(i))
			}
			columns[i] = c
		}
		for i := range int(b.NumRows()) {
			if columns[0].Value(i) != pipeline {
				continue
			}
			var m Memory
			if err := json.Unmarshal([]byte(columns[2].Value(i)), &m); err != nil {
				return fmt.Errorf("stream %s: %w", columns[1].Value(i), err)
			}
			all[strings.Clone(columns[1].Value(i))] = m
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read conventions: %w", err)
	}
	return all, nil
}

// recall reads what the destinations store about the streams. It leaves out a destination that fails: without the
// stored conventions, the run would probe every stream again for it.
func (r *run) recall(ctx context.Context) {
	if r.Options.DryRun {
		return
	}
	for _, d := range r.Destinations {
		if r.health.leftOut(d.Name) != nil {
			continue
		}
		all, err := Recall(ctx, d, r.Name)
		if err != nil {
			r.health.leaveOut(d.Name, fmt.Errorf("destination %s: %w", d.Name, err))
			continue
		}
		r.memory[d.Name] = all
	}
	if source, ok := r.Source.(StreamCompleter); ok {
		source.Settle(func(s schemas.Stream) schemas.Stream { return r.remembered(s).Apply(s) })
	}
}

// remembered returns what the destinations store about s: the newest convention that fits the current request of s,
// and the newest profile.
func (r *run) remembered(s schemas.Stream) Memory {
	var m Memory
	for _, d := range r.Destinations {
		have, ok := r.memory[d.Name][s.Name]
		if !ok {
			continue
		}
		if have.Fits(s) && have.LearnedAt.After(m.LearnedAt) {
			m.Convention = have.Convention
		}
		if p := have.Profile; p != nil && (m.Profile == nil || p.At.After(m.Profile.At)) {
			m.Profile, m.Rules = p, have.Rules
		}
	}
	return m
}

// Settle returns the streams of c as a run would read them: with the conventions and keys that the destinations store.
// It sends no requests to the source. A destination that fails is left out.
func Settle(ctx context.Context, c Config) ([]schemas.Stream, error) {
	r, err := newRun(c)
	if err != nil {
		return nil, err
	}
	r.recall(ctx)
	for i, s := range r.Streams {
		settled := r.remembered(s).Apply(s)
		if !slices.Equal(s.Key, settled.Key) {
			settled.Key = r.keyOf(ctx, settled)
		}
		r.Streams[i] = settled
	}
	return r.Streams, nil
}

func (r *run) keyOf(ctx context.Context, s schemas.Stream) []string {
	for _, d := range r.Destinations {
		tables, err := d.Tables(ctx, s.Table.Name)
		if err != nil {
			continue
		}
		if i := slices.IndexFunc(tables, func(t schemas.Table) bool { return t.Name == s.Table.Name }); i >= 0 {
			return tables[i].Key
		}
	}
	return s.Key
}

// chooseConvention uses the stored convention, or else probes the source. It does not probe a child stream,
// because the answer for its first parent shows how its endpoint answers.
func (st *streamRun) chooseConvention(ctx context.Context) error {
	st.known = st.remembered(st.origin)
	n, able := st.Source.(Negotiator)
	switch {
	case !able || !st.probed():
		st.known.Convention = st.known.Hypotheses()
	case st.known.Of == "" || st.Options.Full:
		c, err := st.negotiate(ctx, n)
		if err != nil {
			return err
		}
		if err := st.checkMoved(c); err != nil {
			return err
		}
		if !c.Open || st.known.Of == "" { // else the list is empty now, and the stored convention says more
			st.known.Convention = c
		}
	case st.origin.Incremental.Auto && st.known.Undecided() && st.Now().Sub(st.known.LearnedAt) >= lookAgain:
		if err := st.lookAgain(ctx, n); err != nil {
			return err
		}
	}
	return st.adopt(ctx)
}

// lookAgain is the time after which a stream is probed again if its records could not show whether an order or
// a filter works.
const lookAgain = 24 * time.Hour

// lookAgain probes the stream again. It changes only the order and the filter in the convention.
func (st *streamRun) lookAgain(ctx context.Context, n Negotiator) error {
	c, err := n.Negotiate(ctx, st.origin)
	st.probeRequests += c.Requests
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil || c.Open:
		st.known.LearnedAt = st.Now().UTC()
	default:
		st.known.Convention = st.known.Renew(c)
	}
	return nil
}

func (st *streamRun) negotiate(ctx context.Context, n Negotiator) (extract.Convention, error) {
	c, err := n.Negotiate(ctx, st.simple())
	st.probeRequests += c.Requests
	switch {
	case err == nil:
		c = st.merge(c)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case st.known.Of != "" && inconclusive(err):
		err = &ChangedError{Stream: st.origin.Name, Reason: "its answers have changed, and new probes do not explain them", Err: err}
	default:
		err = fmt.Errorf("%s: %w", st.origin.Name, err)
	}
	return c, err
}

// adopt applies the convention to the stream. If the table exists already, its key does not change. So a key that
// probes found applies only to new tables.
func (st *streamRun) adopt(ctx context.Context) error {
	st.stream = st.known.Apply(st.origin)
	defer st.setRange()
	switch {
	case st.keyMayChange():
		return st.keepKey(ctx)
	case len(st.origin.Key) > 0 || len(st.stream.Key) == 0:
		return nil
	}
	learned := st.stream.Key
	st.stream.Key = st.keyOf(ctx, st.stream)
	if len(st.stream.Key) > 0 && !slices.Equal(st.stream.Key, learned) {
		return &ChangedError{Stream: st.stream.Name, Reason: fmt.Sprintf("the rows of %s are identified by %s, but the records seem to be identified by %s",
			st.stream.Table.Name, strings.Join(st.stream.Key, ", "), strings.Join(learned, ", "))}
	}
	return nil
}

func (st *streamRun) settleProbes(reports []StreamReport) {
	for i := range reports {
		reports[i].Requests += st.probeRequests
	}
	st.requestCount.Add(int64(st.probeRequests))
	st.probeRequests = 0
}

// errFirst ends a pass over a list that was empty when it was probed. // Invariant 14
var errFirst = errors.New("the list has its first records")

// unseen reports whether page has the first records of a list whose structure is still unknown.
func (st *streamRun) unseen(page extract.Page) bool {
	return !st.renegotiated && st.known.Of != "" && !st.known.Located && st.probed() && len(bytes.TrimSpace(page.Records)) > len("[]")
}

// renegotiate probes the endpoint again, at most once per run, if its answers have changed or an empty list has
// its first records.
func (st *streamRun) renegotiate(ctx context.Context, p *pass, err error) (bool, error) {
	n, able := st.Source.(Negotiator)
	if st.renegotiated || !able || st.known.Of == "" || !errors.Is(err, extract.ErrShape) && !errors.Is(err, errFirst) {
		return false, err
	}
	st.renegotiated = true
	before := st.known.Convention
	c, failed := st.negotiate(ctx, n)
	if failed != nil {
		return false, failed
	}
	if err := st.checkMoved(c); err != nil {
		return false, err
	}
	st.known.Convention = c
	if !errors.Is(err, errFirst) {
		st.noticed = append(st.noticed, changedConvention(before, c, err)...)
	}
	if err := st.adopt(ctx); err != nil {
		return false, err
	}
	p.beginAgain()
	return true, nil
}

// checkMoved returns an error if the new convention finds the records at another place in the answer. Only a person
// can decide what that means for the table's rows. `penstock discover` accepts the new place. // Invariant 12
func (st *streamRun) checkMoved(now extract.Convention) error {
	if moved := st.known.Moved(now); moved != "" {
		return &ChangedError{Stream: st.origin.Name, Reason: moved + "; the table was not changed"}
	}
	return nil
}

func inconclusive(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return !ok || e.Class == wire.Malformed
}

// ChangedError reports that the source has changed since the rows of a stream were loaded. Only a person can decide
// what the change means, so the stream is held.
type ChangedError struct {
	Stream string
	Reason string
	Err    error // may be nil
}

// Error names the stream and the change.
func (e *ChangedError) Error() string {
	if e.Err == nil {
		return e.Stream + ": " + e.Reason
	}
	return e.Stream + ": " + e.Reason + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *ChangedError) Unwrap() error { return e.Err }

// learn stores m in the destination if it differs from what the destination stores.
func (k *destinationRun) learn(ctx context.Context, p *pass, m Memory) error {
	if m.Open {
		m.Convention = extract.Convention{}
	}
	text := m.text()
	if text == "" || text == k.memory {
		return nil
	}
	k.learning = text
	return load.WriteRows(ctx, k.tx, load.Conventions, []any{p.Name, p.stream.Name, p.Run, p.Now(), text})
}

// Remember stores conventions in the destinations of c, because a person requested them. They replace the stored
// conventions. Remember does not record a run.
func Remember(ctx context.Context, c Config, found map[string]extract.Convention) error {
	r, err := newRun(c)
	if err != nil {
		return err
	}
	r.recall(ctx)
	for _, d := range r.Destinations {
		if err := r.health.leftOut(d.Name); err != nil {
			return err
		}
		if err := r.remember(ctx, d, found); err != nil {
			return fmt.Errorf("destination %s: %w", d.Name, err)
		}
	}
	return nil
}

const conventionStream = "_conventions"

func (r *run) remember(ctx context.Context, d Destination, found map[string]extract.Convention) error {
	var rows [][]any
	for _, s := range r.Streams {
		c, ok := found[s.Name]
		if !ok {
			continue
		}
		m := r.memory[d.Name][s.Name]
		m.Convention = c
		rows = append(rows, []any{r.Name, s.Name, r.Run, r.Now(), m.text()})
	}
	if len(rows) == 0 {
		return nil
	}
	stored, err := d.Cursor(ctx, r.Key(conventionStream))
	if err != nil {
		return err
	}
	next := cursor.Position{TouchedBy: r.Run}.Encode()
	return load.CommitRows(ctx, d, r.Key(conventionStream), stored, next, load.Pass{Run: r.Run, Whole: true, Now: r.Now}, load.Conventions, rows...)
}

func changedConvention(before, now extract.Convention, cause error) []drift.Notice {
	var changed []string
	for _, f := range before.Facts {
		if g, ok := now.Fact(f.About); ok && g.Value != f.Value {
			changed = append(changed, fmt.Sprintf("%s: %s, and was %s", f.About, orNone(g.Value), orNone(f.Value)))
		}
	}
	reason := "the endpoint's answers have changed, and it was probed again"
	if len(changed) > 0 {
		reason += ": " + strings.Join(changed, "; ")
	} else if cause != nil {
		reason += ": " + cause.Error()
	}
	return []drift.Notice{{Severity: drift.Warned, Kind: drift.NoticeEnvelope, Reason: reason}}
}

func orNone(s string) string { return cmp.Or(s, "nothing") }
