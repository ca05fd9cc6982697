package extract

import (
	"context"
	"net/http"
	"slices"
)

// group tries the candidates of one kind: all at once first, if they are many.
func (h *hunt) group(ctx context.Context, g []guess, silent bool) (done bool, err error) {
	if len(g) > 2 {
		like, err := h.bulk(ctx, g)
		if err != nil || like == sameRecords || like == mostlySame {
			return false, err
		}
	}
	for _, c := range g {
		if done, err := h.try(ctx, c, silent); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// bulk sends all candidates in one request.
func (h *hunt) bulk(ctx context.Context, g []guess) (likeness, error) {
	extra := make(query)
	for _, c := range g {
		extra.add(c.at.param, c.at.at)
	}
	st, err := h.l.look(ctx, position{extra: extra.encode()})
	if minded(err) {
		return otherRecords, nil // each by itself, then
	}
	if err != nil {
		return 0, err
	}
	h.l.c.release(st.a)
	like := compare(h.first.batch, st.batch)
	if like == sameRecords || like == mostlySame {
		h.say(extra.names(), "ignored")
	}
	return like, nil
}

// try asks for the second page by one parameter; of a POST in its body first,
// then in its query.
func (h *hunt) try(ctx context.Context, c guess, silent bool) (done bool, err error) {
	places := []bool{h.l.s.Pagination.Query}
	if h.l.s.Method == http.MethodPost && h.l.s.Stated["pagination"] == "" {
		places = []bool{false, true}
	}
	defer func(before bool) {
		if !done {
			h.l.s.Pagination.Query = before
		}
	}(h.l.s.Pagination.Query)
	for _, place := range places {
		h.l.s.Pagination.Query = place
		st, like, err := h.ask(ctx, c.at)
		if err != nil {
			return false, err
		}
		if st == nil {
			continue
		}
		accepted, err := h.judge(ctx, c, st, like, silent)
		if h.second != st {
			h.l.c.release(st.a)
		}
		if accepted || err != nil {
			return accepted, err
		}
	}
	return false, nil
}

// ask makes one probe and says what came; st is nil for a refusal.
func (h *hunt) ask(ctx context.Context, at position) (st *step, like likeness, err error) {
	name := at.param + "=" + short(at.at)
	if at.extra != "" {
		name = at.extra
	}
	st, err = h.l.look(ctx, at)
	if minded(err) {
		if at.extra == "" && stumbled(at, err) && (h.broken == position{}) {
			h.broken = at
		}
		h.say(name, err.Error())
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	like = compare(h.first.batch, st.batch)
	if like == otherRecords && len(h.l.s.Key) == 0 && h.l.unstable(ctx, h.first) {
		h.first.note = "records change by being read: pages cannot be told apart"
		like = mostlySame
	}
	h.say(name, [...]string{"no records", "ignored", "ignored", "some of the first page's records", "other records"}[like])
	return st, like, nil
}

// unstable reports whether records that have no key are not the same when they
// are read again.
func (l *listing) unstable(ctx context.Context, first *step) bool {
	st, err := l.look(ctx, position{})
	if err != nil {
		return false
	}
	defer l.c.release(st.a)
	return compare(first.batch, st.batch) == otherRecords
}

// judge accepts a parameter that brings other records, or none where nothing
// says that there are more.
func (h *hunt) judge(ctx context.Context, c guess, st *step, like likeness, silent bool) (accepted bool, err error) {
	echoed := c.at.kind == pagerPage && st.signals.page == c.at.number()
	switch {
	case like == otherRecords:
		h.second = st
	case like == noRecords && !silent && c.at.kind == pagerPage && h.first.signals.page < 0:
		// The list may have two pages, and count them from 0.
		if err := h.base(ctx, c); err != nil || h.second == nil {
			return false, err
		}
		h.paging.Type, h.paging.Page, h.paging.Query = c.typ, c.at.param, h.l.s.Pagination.Query
		return true, nil
	case like == noRecords && (silent || echoed):
		if !silent {
			h.second = st
		}
	default:
		return false, nil
	}
	h.paging.Type, h.paging.Page, h.paging.Query = c.typ, c.at.param, h.l.s.Pagination.Query
	switch {
	case c.at.kind == pagerPage && h.first.signals.page < 0:
		return true, h.base(ctx, c)
	case c.at.kind == pagerOffset && like == noRecords:
		return h.stride(ctx, c)
	case c.at.kind == pagerCursor && like == noRecords:
		return h.follows(ctx, c)
	}
	h.paging.Zero = c.at.kind == pagerPage && h.first.signals.page == 0
	return true, nil
}

// base finds out whether pages are counted from 0: then page 1 is the second.
func (h *hunt) base(ctx context.Context, c guess) error {
	one := position{kind: pagerPage, param: c.at.param, at: "1"}
	st, like, err := h.ask(ctx, one)
	if err != nil || st == nil {
		return err
	}
	if like == otherRecords {
		if h.second != nil {
			h.l.c.release(h.second.a)
		}
		h.second, h.paging.Zero = st, true
		return nil
	}
	h.paging.Zero = like == noRecords && h.first.batch.n > 0
	h.l.c.release(st.a)
	return nil
}

// stride tries an offset that leaves nothing with that of one record: it must
// leave out the first one. Where it brings others, it counts pages.
func (h *hunt) stride(ctx context.Context, c guess) (accepted bool, err error) {
	one := position{kind: pagerPage, param: c.at.param, at: "1"}
	st, like, err := h.ask(ctx, one)
	if err != nil || st == nil {
		return false, err
	}
	if like == otherRecords && h.first.batch.n > 2 {
		h.second, h.paging.Type, h.paging.Zero = st, "page", true
		return true, nil
	}
	defer h.l.c.release(st.a)
	return h.shifted(st), nil
}

// follows tries a parameter that leaves nothing behind the last record with the
// first one: everything but that must come.
func (h *hunt) follows(ctx context.Context, c guess) (accepted bool, err error) {
	id := h.l.idOf(h.first.a.d, h.first.batch.first)
	if id == "" || h.first.batch.n < 2 {
		return h.first.batch.n == 1, nil
	}
	st, _, err := h.ask(ctx, position{kind: pagerCursor, param: c.at.param, at: id})
	if err != nil || st == nil {
		return false, err
	}
	defer h.l.c.release(st.a)
	return h.shifted(st), nil
}

// shifted reports whether an answer is the first page from its second record on.
func (h *hunt) shifted(st *step) bool {
	keys, got := h.first.batch.keys, st.batch.keys
	if len(keys) == 1 {
		return len(got) == 0
	}
	return len(got) >= len(keys)-1 && slices.Equal(keys[1:], got[:len(keys)-1])
}
