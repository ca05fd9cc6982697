package pipeline

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/parents"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
)

type streamRun struct {
	run           *run
	slot          *slot
	origin        schemas.Stream
	stream        schemas.Stream // the stream with its convention applied; see chooseConvention()
	destinations  []*destinationRun
	passes        int
	known         Memory
	probeRequests int // number of probe requests that no pass has counted yet
	lock          *overlay.Lock
	holdsLock     bool // whether the run holds the lock; a pass may release it between commits

	watch        keyWatch
	dropped      int
	restarted    bool
	renegotiated bool
	noticed      []drift.Notice
}

// parts reports whether a pass may be committed in parts and continued after an interruption. The table must have a
// key: without a key, the rows of a pass cannot be distinguished from earlier rows. The mode must not be replace,
// because such a table shows either all rows of a pass or none.
func (st *streamRun) parts() bool { return st.keyed() && st.stream.Table.Mode != schemas.Replace }

func (st *streamRun) keyed() bool { return len(st.stream.Key) > 0 }

// partialBackfill reports whether the run is a backfill that commits in parts. Its passes delete nothing.
func (st *streamRun) partialBackfill() bool { return st.run.Options.Backfill != nil && st.parts() }

func (st *streamRun) rangeOf() schemas.Range {
	b := st.run.Options.Backfill
	switch {
	case b == nil:
		return schemas.Range{Whole: !st.parts()}
	case !b.Ranged():
		return schemas.Range{Whole: true}
	}
	return schemas.Range{From: b.From, Until: b.Until}
}

func (st *streamRun) rangeable() error {
	switch {
	case st.run.Options.Backfill == nil || !st.run.Options.Backfill.Ranged():
		return nil
	case !st.stream.Ranged():
		return &RangeError{st.stream.Name, "its endpoint can be filtered neither by the time of the last change nor by month"}
	case !st.parts():
		return &RangeError{st.stream.Name, "its table has no key, or is replaced by each pass"}
	}
	return nil
}

// setRange disables incremental reading if a pass must read the whole list. A pass that is one transaction must read
// the whole list, because all rows that the pass does not contain count as missing.
func (st *streamRun) setRange() {
	st.stream.Range = st.rangeOf()
	switch {
	case st.stream.Range.Whole, len(st.stream.Rules.Filter) > 0 && hidesKey(st.stream):
		st.stream.Incremental = schemas.Incremental{}
	case st.run.Options.Full:
		st.stream.Incremental.Full = time.Nanosecond
	}
}

// rules returns a fingerprint of how records become rows. If it changes, the next pass reads the whole list, because an
// incremental pass would leave out records whose rows must change. The fingerprint is "" for a list that is always read
// whole.
func (st *streamRun) rules() string {
	if !st.stream.Incremental.Set() && !st.stream.Months.Set() {
		return ""
	}
	return strconv.FormatUint(parents.Definition(st.stream), 36)
}

// tracksLeft reports whether passes must note which records the filter leaves out. Only incremental passes must note
// them: in a whole pass, the rows of these records are missing anyway.
func (st *streamRun) tracksLeft() bool {
	s := st.stream
	return len(s.Rules.Filter) > 0 && s.Incremental.Set() && st.parts() && s.Table.Mode != schemas.Append
}

func hidesKey(s schemas.Stream) bool {
	return slices.ContainsFunc(s.Key, func(c string) bool { return s.Verdict(schemas.PathPointer(c)).Touched() })
}

func (st *streamRun) newParentTracker() *parents.Tracker {
	if _, able := st.run.Source.(PartSource); !able || st.stream.Parent == "" || !st.parts() {
		return nil
	}
	return parents.NewTracker(st.stream)
}

// probed reports whether the stream is probed before it is read. A child stream is not probed, because the answer to
// the request for the first parent shows how the endpoint answers.
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

func (st *streamRun) conventionOf() extract.Convention {
	c := st.known.Convention.About(st.origin)
	if c.LearnedAt.IsZero() {
		c.LearnedAt = st.run.Now().UTC()
	}
	return c
}

func (st *streamRun) without(e *extract.RefutedError) extract.Convention {
	c := st.conventionOf()
	c.Dropped = append(slices.Clone(c.Dropped), e.Hypothesis)
	c.Facts = append(slices.Clone(c.Facts), extract.Fact{About: e.Hypothesis, Value: "none", From: extract.Learned, Refuted: []string{e.Seen}})
	return c
}

// unseen reports whether a page contains the first records of a list whose structure is still unknown.
func (st *streamRun) unseen(page extract.Page) bool {
	return !st.renegotiated && st.known.Of != "" && !st.known.Located && st.probed() && len(bytes.TrimSpace(page.Records)) > len("[]")
}

// errFirst ends a pass over a list that was empty when it was probed. // Invariant 14
var errFirst = errors.New("the list has its first records")
