package extract

import (
	"context"
	"errors"
	"strings"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// parentAt begins the place of a gap that is a parent.
const parentAt = "parent "

// maxControls is how many other parents are requested to find out whether an error is about
// one parent or about all of them.
const maxControls = 3

// maxShown is how many bytes of a parent's values a gap shows.
const maxShown = 200

// without continues without the answer to t if the error is about this parent only: the
// parent is gone, its record is broken, its values fit no request, or the source answers
// about other parents. If none of several parents can be read, the error is that of the
// endpoint. begun says that a part of the answer was there.
func (f *fanPass) without(ctx context.Context, t candidate, w *lookahead, err error, begun bool) error {
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
	case oneParent(f.s, fault) || f.others(ctx, w, fault):
		f.refusal = err
		f.failed += min(fault.Attempts, 1)
		f.gap(t, fault)
	default:
		return err
	}
	f.current.Sure = false
	f.requests += requestsOf(err)
	return nil
}

// tooMany reports whether no further parent may be left out. Beyond maxGaps that holds for
// failures that are requested several times: others are cheap, and are counted together.
// Values that fit no request say nothing of the endpoint. // Invariant 15
func (f *fanPass) tooMany(fault *wire.Error) bool {
	return len(f.mark.Gaps) >= maxGaps && fault.Attempts > 1 || f.failed >= allGone && !f.answered
}

// gap notes that the parent t could not be read. The last of maxGaps gaps stands for all
// that come after it. // Invariant 6
func (f *fanPass) gap(t candidate, fault *wire.Error) {
	shown := t.line
	if len(shown) > maxShown {
		shown = strings.ToValidUTF8(shown[:maxShown], "") + "…"
	}
	g := Gap{At: parentAt + shown, From: int64(f.mark.Parents + t.after), Rows: 1, Status: fault.Status, Words: fault.Message}
	f.gaps = append(f.gaps, g)
	if n := len(f.mark.Gaps); n >= maxGaps && f.mark.Gaps[n-1].ofParent() {
		f.mark.Gaps[n-1].Rows++
		return
	}
	f.mark.Gaps = append(f.mark.Gaps, g)
}

// withoutAnswer counts the parents that could not be read.
func (f *fanPass) withoutAnswer() (n int64) {
	for _, g := range f.mark.Gaps {
		if g.ofParent() {
			n += g.Rows
		}
	}
	return n
}

// ofParent reports whether the gap is a parent, or several, not records of a list.
func (g Gap) ofParent() bool { return strings.HasPrefix(g.At, parentAt) }

// oneParent reports whether an error about one parent says nothing of the others:
// the server's code stumbles over its records, or refuses its value, or the value
// cannot stand in a path. // Invariant 9
func oneParent(s schemas.Stream, e *wire.Error) bool {
	return alone(s, e) || e.Class == wire.Invalid || e.Class == wire.Refused || e.Class == wire.Missing
}

// others reports whether the source answers about another parent right after an error that
// may be about all of them: a missing permission, a login page, a server that does not
// respond, another shape. It requests a parent that was answered before; before there is
// one, those done by an earlier run and those that come next. An error that asks to come
// back later is always about all of them.
func (f *fanPass) others(ctx context.Context, w *lookahead, fault *wire.Error) bool {
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

// answers reports whether the source answers about one parent, with records in the place
// where the others have theirs.
func (f *fanPass) answers(ctx context.Context, line string) bool {
	params, err := bind(f.s, f.fed, line)
	if err != nil {
		return false
	}
	a, err := f.c.probe(ctx, f.s, params, position{})
	if err != nil {
		f.requests += requestsOf(err)
		return false
	}
	defer f.c.release(a)
	f.requests += a.requests
	f.bytes += a.bytes
	_, err = f.c.newListReader(f.s, params, &f.habits).locate(a.d)
	return err == nil
}
