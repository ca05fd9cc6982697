package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// errSlow cancels a commit that takes so long that the other destinations would have to wait for it.
var errSlow = errors.New("too slow: the other destinations did not wait")

// drop removes k from a pass because its destination failed. k may catch up in a pass of its own, at most once.
func (k *destinationRun) drop(p *pass, err error) {
	k.rollback()
	k.out = true
	k.overlay.Close()
	if !p.resumes {
		k.whole--
	}
	if k.lagged != nil {
		p.giveUpOn(k.dest.Name)
	}
	if len(p.destinations) == 1 || lasting(err) || p.hopeless(k.dest.Name) {
		k.fail(err)
		return
	}
	k.trouble = err
	k.finished, k.ended, k.before = false, nil, k.prior
	k.report.Status, k.report.Err = "", nil
}

func lasting(err error) bool {
	return errors.Is(err, load.ErrForeignChange) || errors.Is(err, state.ErrMoved) || errors.Is(err, state.ErrLocked)
}

// rejoin prepares a pass for k only. It reads the cursor of the destination again, because a commit without an answer
// may have succeeded.
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
		if k.pos, err = k.ownPosition(at); err != nil {
			k.fail(err)
		}
	default:
		k.fail(fmt.Errorf("%w: %w", state.ErrMoved, trouble))
	}
	if k.before != nil {
		k.pos = cursor.Position{} // only a whole second reading can prove anything
	}
}

// absences is the number of failed cursor reads in a row after which a destination is left out of the run.
const absences = 3

func (k *destinationRun) cursor(ctx context.Context, r *run) (state.Cursor, error) {
	at, err := k.dest.Cursor(ctx, k.key)
	r.noteCursorRead(k.dest.Name, err)
	return at, err
}

// noteCursorRead counts failed reads of a destination's cursor. After several in a row it leaves the destination out
// of the run, because each failed read may take as long as the destination's timeout. // Invariant 15
func (r *run) noteCursorRead(destination string, err error) {
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

func (r *run) leftOut(destination string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.down[destination]
}

func (r *run) giveUpOn(destination string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost[destination] = true
}

// hopeless reports whether the destination did not catch up with an earlier stream. Then another
// reading for it would waste requests.
func (r *run) hopeless(destination string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost[destination]
}

func behind(destinations []*destinationRun, reports []StreamReport) {
	for i := range reports {
		for _, other := range reports {
			if destinations[i].broken && reports[i].Status == StatusFailed && (other.Status == StatusComplete || other.Status == StatusHeld) {
				reports[i].Status = StatusLagging
			}
		}
	}
}
