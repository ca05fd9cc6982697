package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
)

// maxDropped limits the hypotheses that a run may drop for one stream. // Invariant 15
const maxDropped = 2

// drop makes this run and later runs read the stream without the refuted hypothesis. It reports whether the
// destinations of p may start again.
func (st *streamRun) drop(ctx context.Context, p *pass, err error) (bool, error) {
	e, ok := errors.AsType[*extract.RefutedError](err)
	if !ok || slices.Contains(st.known.Dropped, e.Hypothesis) || st.dropped >= maxDropped {
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
	severity := drift.Warned // the notice appears once, because later runs do not use the hypothesis any more
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

// refuted reports whether err refutes a hypothesis. Then the pages read so far must not be committed.
func refuted(err error) bool {
	_, ok := errors.AsType[*extract.RefutedError](err)
	return ok
}

func (st *streamRun) without(e *extract.RefutedError) extract.Convention {
	c := st.conventionOf()
	c.Dropped = append(slices.Clone(c.Dropped), e.Hypothesis)
	c.Facts = append(slices.Clone(c.Facts), extract.Fact{About: e.Hypothesis, Value: "none", From: extract.Learned, Refuted: []string{e.Seen}})
	return c
}

// probed reports whether the stream is probed before it is read. A child stream is not, because the answer
// for its first parent shows how its endpoint answers.
func (st *streamRun) probed() bool {
	return st.simple().Parent == "" && st.origin.Class != schemas.ClassFile
}

func (st *streamRun) simple() schemas.Stream {
	s := st.known.WithoutRefuted(st.origin)
	if st.known.Refuted(s.Key) && s.Stated["key"] == "" {
		s.Key = st.known.Key
	}
	return s
}

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
