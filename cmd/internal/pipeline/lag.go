package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// errSlow ends a commit that the other destinations of a pass have waited for
// long enough.
var errSlow = errors.New("too slow for the other destinations to wait")

// drop takes k out of a pass which failed in its destination alone. Where
// others go on with the pass, k catches up alone when they are through: once,
// and only if the next try may fare better.
func (k *destinationRun) drop(p *pass, err error) {
	k.rollback()
	k.out = true
	if k.loan != nil {
		k.loan.closed = true
	}
	if !p.resumes {
		k.whole-- // it was none
	}
	if k.lagged != nil {
		p.giveUpOn(k.dest.Name)
	}
	if len(p.sinks) == 1 || lasting(err) || p.hopeless(k.dest.Name) {
		k.fail(err)
		return
	}
	k.trouble = err
	k.finished, k.ended, k.before = false, nil, k.prior // what the pass had come to is not kept
	k.report.Status, k.report.Err = "", nil
}

// lasting reports whether err is one that the same rows would meet again, or
// that waiting has been tried for.
func lasting(err error) bool {
	return errors.Is(err, load.ErrForeignChange) || errors.Is(err, state.ErrMoved) || errors.Is(err, state.ErrLocked)
}

// rejoin readies a sink that has dropped out of a pass for one of its own. It
// asks the destination where it stands: of a commit without an answer, nobody
// else can tell.
func (k *destinationRun) rejoin(ctx context.Context, r *run) {
	if k.finished || k.trouble == nil {
		return
	}
	trouble := k.trouble
	k.trouble, k.lagged = nil, trouble
	if r.hopeless(k.dest.Name) {
		k.fail(trouble)
		return
	}
	at, err := k.cursor(ctx, r)
	switch {
	case err != nil:
		r.giveUpOn(k.dest.Name)
		k.fail(trouble)
	case at == k.stored:
	case at == k.tried:
		k.stored = at
		if k.pos, err = k.place(at); err != nil {
			k.fail(err)
		}
	default:
		k.fail(fmt.Errorf("%w: %w", state.ErrMoved, trouble))
	}
	if k.before != nil {
		k.pos = position{} // it was at a second pass, for a proof, and half of one proves nothing
	}
}

// absences is how often in a row a destination must have been asked in vain where
// a stream stands before it is left out of the run.
const absences = 3

// cursor asks the destination where k stands.
func (k *destinationRun) cursor(ctx context.Context, r *run) (state.Cursor, error) {
	at, err := k.dest.Cursor(ctx, k.key)
	r.heard(k.dest.Name, err)
	return at, err
}

// heard notes whether a destination has said where a stream stands. That it has
// not may have taken all the patience there is with it: the streams to come are
// not held up for as long again, each of them. // Invariant 15
func (r *run) heard(destination string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.absent[destination] = 0
		return
	}
	if r.absent[destination]++; r.absent[destination] >= absences {
		r.down[destination] = fmt.Errorf("destination %s: %w", destination, err)
	}
}

// leftOut is why a destination is left out of the rest of the run; nil where it
// is not.
func (r *run) leftOut(destination string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.down[destination]
}

// giveUpOn notes that a destination did not catch up, for the streams to come.
func (r *run) giveUpOn(destination string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost[destination] = true
}

// hopeless reports whether a destination has failed to catch up in this run
// before: reading for it alone again would spend requests in vain.
func (r *run) hopeless(destination string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost[destination]
}

// behind gives the sinks whose destination alone failed their status: behind the
// others, if others have what they lack.
func behind(sinks []*destinationRun, reports []StreamReport) {
	for i := range reports {
		for _, other := range reports {
			if sinks[i].broken && reports[i].Status == StatusFailed && (other.Status == StatusComplete || other.Status == StatusHeld) {
				reports[i].Status = StatusLagging
			}
		}
	}
}
