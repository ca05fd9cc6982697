package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Negotiator is implemented by sources that can find out how an endpoint
// answers; *extract.Client is one.
type Negotiator interface {
	// Negotiate probes the endpoint of s. known is what was held before, the
	// zero value for nothing. An error says why no hypothesis survived; the
	// Convention beside it may still tell how many requests that took.
	Negotiate(ctx context.Context, s schemas.Stream, known extract.Convention) (extract.Convention, error)
}

// Settler is implemented by sources that read streams by themselves, as the
// parents of others; *extract.Client is one.
type Settler interface {
	// Settle says how those streams are to be read. It is called once, before
	// the first pass.
	Settle(settle func(schemas.Stream) schemas.Stream)
}

// Memory is what the destinations keep about one stream of a pipeline: how its
// endpoint answers, and what the last whole pass over it looked like.
type Memory struct {
	extract.Convention
	Profile *Profile `json:"profile,omitempty"`
	Rules   string   `json:"rules,omitempty"` // fingerprint of the stream's filter in that pass
}

// Empty reports whether there is nothing to keep.
func (m Memory) Empty() bool { return m.Of == "" && m.Profile == nil }

// text is m as the destinations keep it; "" for nothing.
func (m Memory) text() string {
	if m.Empty() {
		return ""
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // a struct of strings, numbers and times
	}
	return string(b)
}

// Memories are what a destination remembers of a pipeline's streams, by name.
type Memories map[string]Memory

// Recall reads what d remembers of the pipeline's streams.
func Recall(ctx context.Context, d load.Destination, pipeline string) (Memories, error) {
	all := Memories{}
	err := d.Scan(ctx, load.Conventions.Name, []string{"pipeline", "stream", "convention"}, func(b arrow.RecordBatch) error {
		columns := [3]*array.String{}
		for i := range columns {
			c, ok := b.Column(i).(*array.String)
			if !ok {
				return fmt.Errorf("column %q is no text", b.ColumnName(i))
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
		return nil, fmt.Errorf("read what is known of the streams: %w", err)
	}
	return all, nil
}

// recall reads what every destination remembers, once a run. One that cannot
// say is left out of the run: what it does not know it would learn anew.
func (r *run) recall(ctx context.Context) {
	if r.Options.DryRun {
		return
	}
	for _, d := range r.Destinations {
		if r.leftOut(d.Name) != nil {
			continue
		}
		all, err := Recall(ctx, d, r.Name)
		if err != nil {
			r.mu.Lock()
			r.down[d.Name] = fmt.Errorf("destination %s: %w", d.Name, err)
			r.mu.Unlock()
			continue
		}
		r.memory[d.Name] = all
	}
	if source, ok := r.Source.(Settler); ok {
		source.Settle(func(s schemas.Stream) schemas.Stream { return r.remembered(s).Apply(s) })
	}
}

// remembered is the newest that any destination knows of s: a convention about
// the request it makes now, and a profile.
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

// settle makes the run's streams what is remembered of them: for what reads the
// source, or its records, as the last run did.
func (r *run) settle(ctx context.Context) {
	r.recall(ctx)
	for i, s := range r.Streams {
		settled := r.remembered(s).Apply(s)
		if !slices.Equal(s.Key, settled.Key) {
			settled.Key = r.keyOf(ctx, settled)
		}
		r.Streams[i] = settled
	}
}

// keyOf is what tells the rows of a stream's table apart, where there is one
// already, else what the stream says.
func (r *run) keyOf(ctx context.Context, s schemas.Stream) []string {
	for _, d := range r.Destinations {
		tables, err := d.Tables(ctx, s.Table.Name)
		if err != nil {
			continue // whoever writes there meets it, and says so
		}
		if i := slices.IndexFunc(tables, func(t schemas.Table) bool { return t.Name == s.Table.Name }); i >= 0 {
			return tables[i].Key
		}
	}
	return s.Key
}

// agree settles how the stream is read in this run: as it is remembered, else as
// the source finds out now. What a stream takes from its parents' records shows
// with the first of them: it is not probed beforehand.
func (st *streamRun) agree(ctx context.Context) error {
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
		if err := st.unmoved(c); err != nil {
			return err
		}
		if !c.Open || st.known.Of == "" { // else the list is empty for now, and says less than is known
			st.known.Convention = c
		}
	case st.origin.Incremental.Auto && st.known.Undecided() && st.Now().Sub(st.known.LearnedAt) >= lookAgain:
		if err := st.lookAgain(ctx, n); err != nil {
			return err
		}
	}
	return st.adopt(ctx)
}

// lookAgain is how long after a look for an order or a filter by the time of
// change the next one is made, where the records could not show whether it is one.
const lookAgain = 24 * time.Hour

// lookAgain looks for an order or a filter by the time of change once more. What
// else is known of the stream stays, and so does all of it if the look fails.
func (st *streamRun) lookAgain(ctx context.Context, n Negotiator) error {
	c, err := n.Negotiate(ctx, st.origin, st.known.Convention)
	st.owed += c.Requests
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

// negotiate asks the source, and counts what that costs with the next pass.
func (st *streamRun) negotiate(ctx context.Context, n Negotiator) (extract.Convention, error) {
	c, err := n.Negotiate(ctx, st.simple(), st.known.Convention)
	st.owed += c.Requests
	switch {
	case err == nil:
		c = st.merge(c)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case st.known.Of != "" && inconclusive(err):
		err = &ChangedError{Stream: st.origin.Name, Reason: "it does not answer as it did, and probing it anew settled nothing", Err: err}
	default:
		err = fmt.Errorf("%s: %w", st.origin.Name, err)
	}
	return c, err
}

// adopt makes the stream what its convention says. A table that has rows keeps
// what it tells them apart by: a learned key is for tables to come.
func (st *streamRun) adopt(ctx context.Context) error {
	st.stream = st.known.Apply(st.origin)
	defer st.wholly()
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

// settleProbes counts the requests that no pass has: of a stream that was
// probed, and not read.
func (st *streamRun) settleProbes(reports []StreamReport) {
	for i := range reports {
		reports[i].Requests += st.owed
	}
	st.asked.Add(int64(st.owed))
	st.owed = 0
}

// errFirst ends a pass over a list that was empty when it was probed, and is not
// any more: nothing is known of how it is built. // Invariant 14
var errFirst = errors.New("the list has its first records")

// unseen reports whether a page is the first that there is something to learn
// from.
func (st *streamRun) unseen(page extract.Page) bool {
	return !st.renegotiated && st.known.Of != "" && !st.known.Located && st.probed() && len(bytes.TrimSpace(page.Records)) > len("[]")
}

// renegotiate finds out anew how the endpoint answers, once a run, where err
// says that it does not answer as it was held to, or does for the first time. It
// reports whether the sinks of p may begin again.
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
	if err := st.unmoved(c); err != nil {
		return false, err
	}
	st.known.Convention = c
	if !errors.Is(err, errFirst) {
		st.noticed = append(st.noticed, changedConvention(before, c, err)...)
	}
	if err := st.adopt(ctx); err != nil {
		return false, err
	}
	p.beginAgain() // that reading was of something else
	return true, nil
}

// unmoved refuses a convention by which the records stand elsewhere than they
// did, or are one object: what it says of the table's rows only a person can
// tell. `penstock discover` accepts it. // Invariant 12
func (st *streamRun) unmoved(now extract.Convention) error {
	if moved := st.known.Moved(now); moved != "" {
		return &ChangedError{Stream: st.origin.Name, Reason: moved + "; the table stays as it is"}
	}
	return nil
}

// inconclusive reports whether the source has answered the probes, and no
// hypothesis explains its answers.
func inconclusive(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return !ok || e.Class == wire.Malformed
}

// ChangedError is why a stream waits for a person: its source is not what it was
// when its rows were loaded, and nobody can tell what that means for them.
type ChangedError struct {
	Stream string
	Reason string
	Err    error // may be nil
}

// Error names the stream and what is not as it was.
func (e *ChangedError) Error() string {
	if e.Err == nil {
		return e.Stream + ": " + e.Reason
	}
	return e.Stream + ": " + e.Reason + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *ChangedError) Unwrap() error { return e.Err }

// learn puts into the open transaction what of m the destination does not know
// yet. What is known is not written again: a pass that finds everything as it was
// leaves it alone.
func (k *destinationRun) learn(ctx context.Context, p *pass, m Memory) error {
	if m.Open {
		m.Convention = extract.Convention{} // there was nothing to learn from
	}
	text := m.text()
	if text == "" || text == k.memory {
		return nil
	}
	k.learning = text
	return writeOwn(ctx, k.tx, load.Conventions, []any{p.Name, p.stream.Name, p.Run, p.Now(), text})
}

// Remember makes conventions known to the destinations of c, in the place of
// what they held, and with no run: what a person has asked to be found out.
func Remember(ctx context.Context, c Config, found map[string]extract.Convention) error {
	r, err := newRun(c)
	if err != nil {
		return err
	}
	r.recall(ctx)
	for _, d := range r.Destinations {
		if err := r.leftOut(d.Name); err != nil {
			return err
		}
		if err := r.remember(ctx, d, found); err != nil {
			return fmt.Errorf("destination %s: %w", d.Name, err)
		}
	}
	return nil
}

// conventionStream is the name under which conventions are committed that no
// pass has brought.
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
	stored, err := d.Cursor(ctx, r.key(conventionStream))
	if err != nil {
		return err
	}
	tx, err := d.Begin(ctx, r.key(conventionStream), stored, load.Pass{Run: r.Run, Whole: true, Now: r.Now})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := writeOwn(ctx, tx, load.Conventions, rows...); err != nil {
		return err
	}
	return tx.Commit(ctx, position{touchedBy: r.Run}.encode())
}
