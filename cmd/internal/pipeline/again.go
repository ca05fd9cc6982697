package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/extract"
)

// restart handles the failure of a pass that continued an interrupted pass. The position of the interruption may no
// longer exist, and every later run would fail there too. So the pass begins again at the start of the list, at most
// once per run.
func (st *streamRun) restart(p *pass, err error) bool {
	if !p.resumes || st.restarted || !misplaced(err) {
		return false
	}
	st.restarted = true
	for _, k := range p.destinations {
		k.pos = cursor.Position{}
	}
	return true
}

// rekey handles a keyError, and reports whether the destinations of the pass p may start again. An existing table keeps
// its key. If there is no table, a refuted key is replaced. If a key is only suspicious, the stream is read again with
// the same key, and the second reading decides.
func (st *streamRun) rekey(ctx context.Context, p *pass, err error) (bool, error) {
	e, ok := errors.AsType[*keyError](err)
	if !ok {
		return false, err
	}
	_, there := st.tableKey(ctx)
	switch {
	case e.table != nil:
		c := st.conventionOf()
		c.RefutedKeys, c.Key = append(slices.Clone(c.RefutedKeys), e.key), e.table
		st.known.Convention = c
	case there:
		st.watch.settled = true
	case e.record != nil:
		st.widenKey(e)
	default:
		p.beginAgain()
		return true, nil
	}
	st.watch.tried++
	if err := st.adopt(ctx); err != nil {
		return false, err
	}
	p.beginAgain()
	return true, nil
}

// drop handles an [extract.RefutedError]. Such an error occurs, for example, if the source ignores the parameter that
// selects a month. This run and later runs then read the stream without the refuted hypothesis. The result is true if
// the destinations of p may start again.
func (st *streamRun) drop(ctx context.Context, p *pass, err error) (bool, error) {
	e, ok := errors.AsType[*extract.RefutedError](err)
	if !ok || slices.Contains(st.known.Dropped, e.Hypothesis) || st.dropped >= maxDropped {
		return false, err
	}
	st.dropped++
	st.known.Convention = st.without(e)
	n, able := st.run.Source.(Negotiator)
	if able && !st.known.Located && st.probed() {
		c, err := st.negotiate(ctx, n)
		if err != nil {
			return false, err
		}
		st.known.Convention = c
	}
	severity := drift.Warned // only this run reports it: later runs do not use the hypothesis
	if e.Temporary {
		st.known.Open, severity = true, drift.Noted
	}
	st.noticed = append(st.noticed, drift.Notice{Severity: severity, Kind: drift.NoticeHypothesis, Reason: fmt.Sprintf("%s; the stream is read without %s", e.Seen, e.Hypothesis)})
	if err := st.adopt(ctx); err != nil {
		return false, err
	}
	p.beginAgain()
	return true, nil
}

// maxDropped limits the hypotheses that a run may drop for one stream. // Invariant 15
const maxDropped = 2

// refuted reports whether err refutes a hypothesis. Then the pages read so far must not be committed.
func refuted(err error) bool {
	_, ok := errors.AsType[*extract.RefutedError](err)
	return ok
}

// renegotiate probes the endpoint again in two cases: its answers have changed, or a list that was empty has its first
// records. It does so at most once per run.
func (st *streamRun) renegotiate(ctx context.Context, p *pass, err error) (bool, error) {
	n, able := st.run.Source.(Negotiator)
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

func (p *pass) beginAgain() {
	for _, k := range p.destinations {
		k.pos = cursor.Position{}
		if !p.resumes && k.whole > 0 {
			k.whole--
		}
	}
}

func changedConvention(before, now extract.Convention, cause error) []drift.Notice {
	var changed []string
	for _, f := range before.Facts {
		if g, ok := now.Fact(f.About); ok && g.Value != f.Value {
			changed = append(changed, fmt.Sprintf("%s: now %s, before %s", f.About, orNone(g.Value), orNone(f.Value)))
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

func (st *streamRun) widenKey(e *keyError) {
	key := widerKey(st.stream, e.record)
	c := st.conventionOf()
	c.RefutedKeys = append(slices.Clone(c.RefutedKeys), e.key)
	c.Key = key
	now := "the rows have no key"
	if len(key) > 0 {
		now = "the key is " + strings.Join(key, ", ")
	}
	c.Facts = slices.DeleteFunc(slices.Clone(c.Facts), func(f extract.Fact) bool { return f.About == extract.FactKey })
	c.Facts = append(c.Facts, extract.Fact{About: extract.FactKey, Value: strings.Join(key, ", "), From: extract.Learned, Refuted: []string{e.Error()}})
	st.known.Convention = c
	st.noticed = append(st.noticed, drift.Notice{Severity: drift.Warned, Kind: drift.NoticeKey, Reason: fmt.Sprintf("%s; now %s", e.Error(), now)})
}
