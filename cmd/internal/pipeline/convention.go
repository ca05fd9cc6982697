package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
)

// chooseConvention uses the stored convention, or else probes the source. It does not probe a child stream, because the
// answer to the request for the first parent shows how the endpoint answers.
func (st *streamRun) chooseConvention(ctx context.Context) error {
	st.known = st.run.remembered(st.origin)
	n, able := st.run.Source.(Negotiator)
	switch {
	case !able || !st.probed():
		st.known.Convention = st.known.Hypotheses()
	case st.known.Of == "" || st.run.Options.Full:
		c, err := st.negotiate(ctx, n)
		if err != nil {
			return err
		}
		if err := st.checkMoved(c); err != nil {
			return err
		}
		if !c.Open || st.known.Of == "" { // if the convention is open, the list is empty now, and a stored convention says more
			st.known.Convention = c
		}
	case st.origin.Incremental.Auto && st.known.Undecided() && st.run.Now().Sub(st.known.LearnedAt) >= lookAgain:
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
		st.known.LearnedAt = st.run.Now().UTC()
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

func (st *streamRun) settleProbes(reports []StreamReport) {
	for i := range reports {
		reports[i].Requests += st.probeRequests
	}
	st.run.requestCount.Add(int64(st.probeRequests))
	st.probeRequests = 0
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
