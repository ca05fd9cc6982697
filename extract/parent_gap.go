package extract

import (
	"context"
	"errors"
	"strings"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

const maxControls = 3

const maxShown = 200

// continueWithout returns nil if err concerns only the parent t: then the pass continues without that parent. If no
// parent can be read, err concerns the endpoint. The argument `begun` says whether a part of the parent's list was
// read.
func (f *fanPass) continueWithout(ctx context.Context, t tupleRequest, w *lookahead, err error, begun bool) error {
	fault, ok := errors.AsType[*wire.Error](err)
	switch {
	case err == nil:
		f.answered, f.controls = true, []string{t.line}
		return nil
	case !ok || f.windows != nil || f.ofStream:
		return err
	case gone(err) && !begun:
		f.mark.Gone++
	case f.tooMany(fault):
		return err
	case oneParent(f.s, fault) || f.othersAnswer(ctx, w, fault):
		f.refusal = err
		f.failed += min(fault.Attempts, 1)
		f.gap(t, fault)
	default:
		return err
	}
	f.current.Complete = false
	f.requests += requestsOf(err)
	return nil
}

// tooMany reports whether the pass must fail because too many parents could not be read. After maxGaps gaps, it counts
// only failures that were retried, because other failures cost little. A failure without a request does not count
// either, because it shows nothing about the endpoint: the parent's value fits no request. // Invariant 15
func (f *fanPass) tooMany(fault *wire.Error) bool {
	return len(f.mark.Gaps) >= maxGaps && fault.Attempts > 1 || f.failed >= allGone && !f.answered
}

// gap notes that parent t could not be read. After maxGaps gaps, the last gap grows instead. // Invariant 6
func (f *fanPass) gap(t tupleRequest, fault *wire.Error) {
	shown := t.line
	if len(shown) > maxShown {
		shown = strings.ToValidUTF8(shown[:maxShown], "") + "…"
	}
	g := Gap{At: parentAt + shown, First: int64(f.mark.Parents + t.after), Rows: 1, Status: fault.Status, Message: fault.Message}
	f.gaps = append(f.gaps, g)
	if n := len(f.mark.Gaps); n >= maxGaps && f.mark.Gaps[n-1].ofParent() {
		f.mark.Gaps[n-1].Rows++
		return
	}
	f.mark.Gaps = append(f.mark.Gaps, g)
}

func (f *fanPass) withoutAnswer() (n int64) {
	for _, g := range f.mark.Gaps {
		if g.ofParent() {
			n += g.Rows
		}
	}
	return n
}

// oneParent reports whether an error concerns only the requested parent. That is so if the server fails on the parent's
// records or rejects its value, or if a path cannot contain the value. // Invariant 9
func oneParent(s schemas.Stream, e *wire.Error) bool {
	return concernsOneParent(s, e) || e.Class == wire.Invalid || e.Class == wire.Refused || e.Class == wire.Missing
}

// othersAnswer reports whether the source still answers for another parent. It is called after an error that may
// concern all parents. It requests the last parent for which the source has answered. If this pass has no answer yet,
// it requests the last parents that were answered before an interruption, and then the parents that follow.
func (f *fanPass) othersAnswer(ctx context.Context, w *lookahead, fault *wire.Error) bool {
	if fault.Class == wire.Throttled || !fault.NotBefore.IsZero() {
		return false
	}
	lines := f.controls
	if !f.answered {
		for _, t := range w.ahead[:min(len(w.ahead), maxControls)] {
			lines = append(lines, t.line)
		}
	}
	for _, line := range lines {
		if f.answers(ctx, line) {
			return true
		}
	}
	return false
}

func (f *fanPass) answers(ctx context.Context, line string) bool {
	params, err := bind(f.s, f.fed, line)
	if err != nil {
		return false
	}
	a, err := f.c.probe(ctx, f.s, params, paging.Position{})
	if err != nil {
		f.requests += requestsOf(err)
		return false
	}
	defer f.c.release(a)
	f.requests += a.requests
	f.bytes += a.bytes
	_, err = f.c.newListReader(f.s, params, &f.traits).locate(a.d)
	return err == nil
}

const allGone = 5

func gone(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && e.Class == wire.Missing && !noRoute(e.Message)
}

func noRoute(message string) bool {
	m := strings.ToLower(message)
	return strings.Contains(m, "the route ") || strings.Contains(m, "not supported for route")
}
