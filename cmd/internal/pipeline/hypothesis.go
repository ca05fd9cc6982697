package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
)

// maxDropped is how many hypotheses about a stream a run gives up. Invariant 15
const maxDropped = 2

// drop answers an [extract.RefutedError]: the stream is read in the simpler way,
// in this run and in later ones. It reports whether the sinks of p may begin
// again.
func (st *streamRun) drop(ctx context.Context, p *pass, err error) (bool, error) {
	e, ok := errors.AsType[*extract.RefutedError](err)
	if !ok || slices.Contains(st.known.Dropped, e.About) || st.dropped >= maxDropped {
		return false, err
	}
	st.dropped++
	st.known.Convention = st.without(e)
	n, able := st.Source.(Negotiator)
	if able && !st.known.Located && st.probed() {
		c, err := st.negotiate(ctx, n)
		if err != nil {
			return false, err
		}
		st.known.Convention = c
	}
	severity := Warned // once: later runs remember it
	if e.ForNow {
		st.known.Open, severity = true, Noted // the next run looks again
	}
	st.noticed = append(st.noticed, Notice{Severity: severity, About: NoticeHypothesis, Reason: fmt.Sprintf("%s; the stream is read without %s", e.Seen, e.About)})
	if err := st.adopt(ctx); err != nil {
		return false, err
	}
	p.beginAgain()
	return true, nil
}

// refuted reports whether err says that a hypothesis about the stream is wrong:
// what the pass has gathered is not what the stream is to be.
func refuted(err error) bool {
	_, ok := errors.AsType[*extract.RefutedError](err)
	return ok
}

// without is what is known of the stream, without a hypothesis.
func (st *streamRun) without(e *extract.RefutedError) extract.Convention {
	c := st.conventionOf()
	c.Dropped = append(slices.Clone(c.Dropped), e.About)
	c.Facts = append(slices.Clone(c.Facts), extract.Fact{About: e.About, Value: "none", From: extract.Learned, Refuted: []string{e.Seen}})
	return c
}

// probed reports whether the stream, without what is refuted, is probed before
// it is read: what a child takes from its parents shows with the first of them.
func (st *streamRun) probed() bool {
	return st.simple().Parent == "" && st.origin.Class != schemas.ClassFile
}

// simple is the stream as the configuration has it, without what is refuted.
func (st *streamRun) simple() schemas.Stream {
	s := st.known.Drop(st.origin)
	if st.known.Refuted(s.Key) && s.Stated["key"] == "" {
		s.Key = st.known.Key
	}
	return s
}

// merge makes c, which probes have just found, a convention about the stream as
// the configuration has it, with what held before about its hypotheses.
func (st *streamRun) merge(c extract.Convention) extract.Convention {
	h := st.known.Hypotheses()
	c = c.About(st.origin)
	c.Dropped = h.Dropped
	if len(h.RefutedKeys) > 0 && !c.Refuted(h.Key) {
		c.Key = h.Key
	}
	c.RefutedKeys = slices.Concat(h.RefutedKeys, c.RefutedKeys)
	for _, f := range h.Facts {
		if f.About != extract.FactKey {
			c.Facts = append(c.Facts, f)
		}
	}
	return c
}
