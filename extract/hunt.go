package extract

import (
	"context"
	"fmt"

	"github.com/penstock-data/penstock/schemas"
)

// hunt finds out from a list's first page how the list goes on: it tries one
// parameter after the other, and accepts the one that brings other records. That
// nothing brings any is what proves that the first page is all there is.
type hunt struct {
	l      *listing
	first  *step
	second *step // the page that was found; nil for none
	paging schemas.Pagination
	whole  bool // the list knows none of the parameters, and came whole

	broken position // the second page by a parameter that the server stumbles over; the zero value for none

	reacted bool // something about the list goes by one of the parameters
	tried   []string
	reread  bool
}

// maxReread bounds how often a list is read again to see it twice the same.
const maxReread = 3

// settle finds out how the list goes on from its first page, or that it does
// not. Whatever is found holds for the list's other pages, and for those of
// other parents.
func (l *listing) settle(ctx context.Context, q *ahead[position], st *step) error {
	if l.habits.whole {
		st.turn = turn{rule: st.ending()}
		return nil
	}
	h := &hunt{l: l, first: st, paging: l.s.Pagination}
	defer h.release()
	if err := h.run(ctx); err != nil {
		return err
	}
	switch {
	case h.broken != position{}:
		st.turn = turn{next: h.broken}
	case h.whole:
		l.habits.whole = st.batch.n > 0 && h.reread
		st.turn, st.reread = turn{rule: st.ending()}, h.reread
	case h.second == nil:
		l.learn(h.paging)
		st.turn = turn{rule: st.rule}
	default:
		l.habits.loud = st.rule == ""
		l.learn(h.paging)
		st.turn = turn{next: h.second.at}
		q.put(h.second.at, h.second.a)
		l.requests -= h.second.a.requests
		l.bytes -= h.second.a.bytes
		h.second = nil // it is the queue's now
	}
	return nil
}

// learn goes on with what was found out about the list's pages.
func (l *listing) learn(p schemas.Pagination) {
	l.habits.paging = &p
	l.s.Pagination, l.pager.hint, l.pager.settled = p, p, true
	l.pager.zero = l.pager.zero || p.Zero
}

// ending is the rule by which a list ends that knows no pages.
func (st *step) ending() string {
	if st.rule == RuleTotal {
		return RuleTotal
	}
	return RuleOnePage
}

func (h *hunt) release() {
	if h.second != nil {
		h.l.c.release(h.second.a)
	}
}

// run tries what the answer hints at, and then everything else.
func (h *hunt) run(ctx context.Context) error {
	silent := h.first.rule != ""
	if silent {
		if done, err := h.sweep(ctx); done || err != nil {
			return err
		}
		if err := h.trim(ctx); err != nil {
			return err
		}
	}
	for _, g := range h.groups() {
		if done, err := h.group(ctx, g, silent); done || err != nil {
			return err
		}
	}
	if (h.broken != position{}) {
		return nil // whoever reads it may find a way around the record
	}
	if !silent {
		return h.unexplained("the list says there is more than its first page")
	}
	return h.rest(ctx)
}

// sweep asks once for everything that could make a difference: the second page
// in all its names, and pages larger than the first. A list that comes again as
// it was knows none of them, and is all there is. done is true if that is so.
func (h *hunt) sweep(ctx context.Context) (done bool, err error) {
	all := position{extra: h.everything()}
	for range maxReread {
		second, err := h.l.look(ctx, all)
		if minded(err) {
			h.say("all parameters at once", err.Error())
			return false, nil
		}
		if err != nil {
			return false, err
		}
		like := compare(h.first.batch, second.batch)
		h.l.c.release(second.a)
		if like == sameRecords {
			h.whole, h.reread = true, true
			return true, h.cut()
		}
		h.reacted = true
		if like != mostlySame && (like != otherRecords || len(h.l.s.Key) > 0) {
			return false, nil
		}
		moved, err := h.again(ctx)
		if err != nil || !moved {
			return false, err
		}
	}
	h.reacted = false
	h.first.note = "the list changed while it was read"
	return false, nil
}

// again reads the first page once more, and reports whether it is not what it
// was: then the later reading takes its place.
func (h *hunt) again(ctx context.Context) (moved bool, err error) {
	fresh, err := h.l.look(ctx, position{})
	if err != nil {
		return false, err
	}
	if compare(h.first.batch, fresh.batch) == sameRecords {
		h.l.c.release(fresh.a)
		return false, nil
	}
	h.l.pager.rows += int64(fresh.batch.n - h.first.batch.n)
	h.l.c.release(h.first.a)
	h.first.a, h.first.batch = fresh.a, fresh.batch
	return true, nil
}

// cut refuses a list without pages that is exactly as long as the longest that is
// asked for.
func (h *hunt) cut() error {
	if p := h.l.s.Pagination; (p.Type == "" || p.Type == "none") && p.Size != "" && p.Limit >= largestPage && h.first.batch.n == p.Limit {
		return h.unexplained(fmt.Sprintf("the list has as many records as it was asked for, %d, and may have more", p.Limit))
	}
	return nil
}

// trim makes the size that is asked for the one that comes, before pages are
// counted by it.
func (h *hunt) trim(ctx context.Context) error {
	p := &h.l.s.Pagination
	if n := h.first.batch.n; p.Size != "" && n > 0 && n < p.Limit {
		p.Limit, h.paging.Limit = n, n
		_, err := h.again(ctx)
		return err
	}
	return nil
}

// rest decides about a list that says nothing of pages, and goes on by no
// parameter alone. If it is merely cut, it comes whole when more is asked for.
func (h *hunt) rest(ctx context.Context) error {
	if h.reacted {
		if done, err := h.uncut(ctx); done || err != nil {
			return err
		}
	} else if h.first.note == "" {
		moved, err := h.again(ctx)
		if err != nil {
			return err
		}
		h.reread = !moved
	}
	h.whole = true
	return h.cut()
}

// uncut looks for the parameter that makes a list longer which has no pages.
func (h *hunt) uncut(ctx context.Context) (done bool, err error) {
	n := h.first.batch.n
	all := make(query)
	for _, name := range h.sizeNames() {
		all.add(name, fmt.Sprint(largestPage))
	}
	st, err := h.l.look(ctx, position{extra: all.encode()})
	if err == nil {
		h.l.c.release(st.a)
	}
	if err != nil && !minded(err) || err == nil && st.batch.n <= n {
		return false, err
	}
	for _, name := range h.sizeNames() {
		extra := query{}
		extra.add(name, fmt.Sprint(largestPage))
		st, like, err := h.ask(ctx, position{param: name, extra: extra.encode()})
		if err != nil {
			return false, err
		}
		if st == nil {
			continue
		}
		h.l.c.release(st.a)
		if st.batch.n > n && like != noRecords {
			return true, h.enlarge(ctx, name)
		}
	}
	return false, nil
}

// enlarge takes the list as it comes in the largest page there is.
func (h *hunt) enlarge(ctx context.Context, name string) error {
	h.l.s.Pagination.Size, h.l.s.Pagination.Limit = name, largestPage
	h.paging.Type, h.paging.Size, h.paging.Limit = "none", name, largestPage
	if _, err := h.again(ctx); err != nil {
		return err
	}
	h.whole, h.reread = true, false
	if n := h.first.batch.n; round(n) && n < largestPage {
		return h.unexplained(fmt.Sprintf("asked by %s for %d records the list has %d, a round number, and may be cut there", name, largestPage, n))
	}
	return h.cut()
}

// short is a value as a sentence can bear it.
func short(v string) string {
	if len(v) > 16 {
		return v[:12] + "…"
	}
	return v
}
