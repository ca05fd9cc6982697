package extract

import (
	"context"
	"iter"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Pages reads the stream s. A cursor from an interrupted pass continues that pass. Pages starts at the beginning of the
// list if the cursor is "", if the pass of the cursor has ended, or if the requests for s have changed since.
//
// Only the last page has a value in the field End. After an error no page follows. The pages before the error are
// valid, and a pass may continue after them. Errors of the source wrap [*wire.Error], errors of a parent are a
// [*ParentError]. When the caller leaves the loop early, Pages stops its requests before it returns.
func (c *Client) Pages(ctx context.Context, s schemas.Stream, from state.Cursor) iter.Seq2[Page, error] {
	return c.PagesOf(ctx, s, from, nil)
}

// PagesOf is [Client.Pages] for a part of a child stream. It requests only the parents for which selects() returns
// true, or all parents if selects is nil. The argument `count` of selects() is the number of all parents. If s is
// itself a parent of streams in this run, selects is not used, because those streams need all of its records.
func (c *Client) PagesOf(ctx context.Context, s schemas.Stream, from state.Cursor, selects func(p Parent, count int) bool) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		m, resumed, err := parsePassCursor(from)
		if err == nil {
			err = c.admit(s)
		}
		if err != nil {
			yield(Page{}, err)
			return
		}
		by := c.by(s)
		switch {
		case !resumed || m.Of != pagesOf(s) || m.partial() && m.By != by:
			prev := m
			m, resumed = newPassCursor(s), false
			m.begin(prev, by, s, c.cfg.Now())
		case m.By != by:
			m.recall = recall{}
		}
		early := c.takeEarly(s.Name)
		defer early.drop()
		p := &pass{c: c, s: s, mark: m, resumed: resumed, selects: selects}
		if m.Pages == 0 {
			p.early = early
		}
		f := c.fedBy(s.Name)
		if f != nil {
			p.selects = nil
		}
		pages := p.pages(ctx)
		if f != nil {
			pages = f.tap(ctx, pages, resumed || m.partial())
		}
		for page, err := range pages {
			if !yield(page, err) || err != nil {
				return
			}
		}
	}
}

func (p *pass) pages(ctx context.Context) iter.Seq2[Page, error] {
	switch {
	case p.s.Parent != "":
		return p.fanOut(ctx)
	case p.mark.Plan.set():
		return p.byWindow(ctx)
	}
	return p.list(ctx)
}
