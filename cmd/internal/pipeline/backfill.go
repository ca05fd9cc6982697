package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Backfill has a run read history: every stream whole, or the part of it that
// lies in a range. It has a place of its own beside the one at which the runs as
// scheduled stand: neither moves the other. One that was interrupted is carried
// on by the next run with the same range. Nothing is deleted.
type Backfill struct {
	From, Until time.Time // see [schemas.Range]; From zero: everything
	Again       bool      // from the beginning, though it was begun or done before
}

// Ranged reports whether it is about a part of the streams.
func (b Backfill) Ranged() bool { return !b.From.IsZero() }

// Name tells one range from another: 2025-01-01..2025-07-01, 2025-01-01.. to the
// present, .. for everything.
func (b Backfill) Name() string { return moment(b.From) + ".." + moment(b.Until) }

// moment is a bound of a range, a date where it is the beginning of one.
func moment(at time.Time) string {
	at = at.UTC()
	switch {
	case at.IsZero():
		return ""
	case at.Equal(at.Truncate(24 * time.Hour)):
		return at.Format(time.DateOnly)
	}
	return at.Format(time.RFC3339)
}

// called is a stream's name, and what of it a backfill was about.
func called(stream, backfill string) string {
	switch backfill {
	case "":
		return stream
	case Backfill{}.Name():
		return stream + " backfill"
	}
	return stream + " backfill " + backfill
}

// Called is the name of the stream, and what of it a backfill was about: as the
// certificates and the runs tell it.
func (s StreamReport) Called() string { return called(s.Stream, s.Backfill) }

// Called is the name of the pipeline, and of what a backfill was about.
func (r Report) Called() string {
	if len(r.Streams) == 0 {
		return r.Pipeline
	}
	return called(r.Pipeline, r.Streams[0].Backfill)
}

// backfill is the name of the run's backfill; "" for a run as scheduled.
func (r *run) backfill() string {
	if r.Options.Backfill == nil {
		return ""
	}
	return r.Options.Backfill.Name()
}

// aside reports whether what the passes do not carry says nothing. A backfill
// in one transaction is a whole reading like any other.
func (st *streamRun) aside() bool { return st.Options.Backfill != nil && st.parts() }

// rangeOf is the part of the stream that the run asks for.
func (st *streamRun) rangeOf() schemas.Range {
	b := st.Options.Backfill
	switch {
	case b == nil:
		return schemas.Range{Whole: !st.parts()}
	case !b.Ranged():
		return schemas.Range{Whole: true}
	}
	return schemas.Range{From: b.From, Until: b.Until}
}

// RangeError is why a part of a stream cannot be read.
type RangeError struct{ Stream, Reason string }

// Error names the stream and the reason.
func (e *RangeError) Error() string {
	return e.Stream + ": a range of it cannot be asked for: " + e.Reason
}

// rangeable is nil where the run can have what it wants of the stream.
func (st *streamRun) rangeable() error {
	switch {
	case st.Options.Backfill == nil || !st.Options.Backfill.Ranged():
		return nil
	case !st.stream.Ranged():
		return &RangeError{st.stream.Name, "it has no filter by the time of the last change, and no months"}
	case !st.parts():
		return &RangeError{st.stream.Name, "its table has no key, or is replaced by each pass"}
	}
	return nil
}

// place is where k stands, given the destination's cursor: of the run's backfill,
// if it is one.
func (k *destinationRun) place(stored state.Cursor) (pos position, err error) {
	k.main, err = decodePosition(stored)
	if err != nil || k.report.Backfill == "" {
		return k.main, err
	}
	return k.main.backfill(k.report.Backfill)
}

// beside is pos as it is stored: with the places of backfills, or among them.
func (k *destinationRun) beside(p *pass, g *group, pos position) (position, error) {
	if k.report.Backfill == "" {
		pos.backfills, pos.events = k.main.backfills, k.main.events
		if pos.end {
			pos = k.announced(pos, k.all(p, g))
		}
		return k.reask(pos)
	}
	if pos.end {
		pos.done = p.Now().UTC().Format(time.RFC3339)
	}
	main := k.main
	if main.pass == "" {
		main.touchedBy = p.id // nothing was read as scheduled yet
	}
	err := main.keep(k.report.Backfill, pos)
	return main, err
}

// backfill is the position of one backfill.
func (p position) backfill(name string) (position, error) {
	all, err := p.allBackfills()
	if err != nil || len(all[name]) == 0 {
		return position{}, err
	}
	return decodePosition(state.Cursor(all[name]))
}

func (p position) allBackfills() (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if p.backfills == "" {
		return all, nil
	}
	if err := json.Unmarshal([]byte(p.backfills), &all); err != nil {
		return nil, fmt.Errorf("read backfills %q: %w", p.backfills, err)
	}
	return all, nil
}

// keep puts the position of one backfill among the others.
func (p *position) keep(name string, pos position) error {
	all, err := p.allBackfills()
	if err != nil {
		return err
	}
	all[name] = json.RawMessage(pos.encode())
	text, err := json.Marshal(all)
	p.backfills = string(text)
	return err
}

// wasDone ends k where its backfill was done before.
func (k *destinationRun) wasDone(pos position) {
	k.finished = true
	k.report.Status = StatusComplete
	k.report.Done, _ = time.Parse(time.RFC3339, pos.done)
}

// unranged reports whether err says that a stream has no parts to ask for.
func unranged(err error) bool {
	_, ok := errors.AsType[*RangeError](err)
	return ok
}
