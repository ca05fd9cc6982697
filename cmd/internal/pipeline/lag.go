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
	if k.lagged != nil && !k.outdated(err) {
		p.run.health.giveUpOn(k.dest.Name)
	}
	k.report.Verdict, k.report.Reasons = k.stated.verdict, k.stated.reasons // what this pass has proven is not stored // Invariant 14
	if !k.outdated(err) && (len(p.destinations) == 1 || lasting(err) || p.run.health.hopeless(k.dest.Name)) {
		k.fail(err)
		return
	}
	k.trouble = err
	k.finished, k.ended, k.before = false, nil, k.prior
	k.report.Status, k.report.Err = "", nil
}

// inSurvey reports whether a survey covers the stream and can still be used.
func (k *destinationRun) inSurvey() bool {
	s, ok := k.dest.Destination.(*surveyedDestination)
	if ok {
		_, ok = s.surveyOf(k.key)
	}
	return ok
}

// outdated reports whether err means only that the survey is out of date, because another process has moved the cursor
// since the survey. The stream then begins again, from the cursor that the destination has now.
func (k *destinationRun) outdated(err error) bool {
	return k.surveyed && errors.Is(err, state.ErrMoved)
}

// reopen begins the stream again, without the survey. It fails if another process has made a pass since the survey,
// because rows of that later pass would count as rows of this run's pass. // Invariant 13
func (k *destinationRun) reopen(ctx context.Context, st *streamRun) {
	if s, ok := k.dest.Destination.(*surveyedDestination); ok {
		s.leave(k.key)
	}
	surveyed := k.main.Pass
	k.pos, k.start, k.before, k.readings, k.whole = cursor.Position{}, cursor.Position{}, nil, nil, 0
	st.run.forgetRejects(k.dest.Name) // the other process may have added rejects
	k.rejects = nil
	err := k.open(ctx, st)
	if err == nil && k.main.Pass != surveyed {
		err = fmt.Errorf("read %s: %w", st.stream.Name, state.ErrMoved)
	}
	if err != nil {
		k.fail(err)
	}
}

// lasting reports whether a second attempt in the same run would fail in the same way.
func lasting(err error) bool {
	if _, held := errors.AsType[*load.CheckError](err); held {
		return true
	}
	return errors.Is(err, load.ErrForeignChange) || errors.Is(err, state.ErrMoved) || errors.Is(err, state.ErrLocked)
}

// rejoin prepares a pass for k only. It reads the cursor of the destination again, because a commit without an answer
// may have succeeded.
func (k *destinationRun) rejoin(ctx context.Context, st *streamRun) {
	if k.finished || k.trouble == nil {
		return
	}
	r, trouble := st.run, k.trouble
	k.trouble = nil
	if k.outdated(trouble) {
		k.reopen(ctx, st)
		return
	}
	k.lagged = trouble
	if r.health.hopeless(k.dest.Name) {
		k.fail(trouble)
		return
	}
	at, err := k.cursor(ctx, r)
	switch {
	case err != nil:
		r.health.giveUpOn(k.dest.Name)
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

// behind gives the status `lagging` to a failed destination if another destination has loaded the stream.
func behind(destinations []*destinationRun, reports []StreamReport) {
	for i := range reports {
		for _, other := range reports {
			if destinations[i].broken && reports[i].Status == StatusFailed && (other.Status == StatusComplete || other.Status == StatusHeld) {
				reports[i].Status = StatusLagging
			}
		}
	}
}
