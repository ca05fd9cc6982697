package extract

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"unicode"
)

func (p *pagerProbe) try(ctx context.Context, c pagerCandidate, silent bool) (done bool, err error) {
	at := p.place(c.at)
	if p.triedAlone[at] {
		return false, nil
	}
	if p.triedAlone == nil {
		p.triedAlone = map[position]bool{}
	}
	p.triedAlone[at] = true
	refused := p.refused
	st, like, err := p.request(ctx, c.at)
	if err != nil {
		return false, err
	}
	if p.l.s.Method == http.MethodPost {
		p.noteBodyParameters(c.at.param, st == nil, like)
	}
	if st == nil {
		return p.refusal(ctx, c, silent, p.refused > refused)
	}
	p.known = like == sameRecords || like == mostlySame
	accepted, err := p.judge(ctx, c, st, like, silent)
	if p.second != st {
		p.l.c.release(st.a)
	}
	return accepted, err
}

func (p *pagerProbe) place(at position) position {
	at.placed = p.l.s.Pagination.Query
	return at
}

// refusal judges a parameter whose value the server refuses. If the server knows the parameter, the list may have
// only one page, or two pages that are numbered from 0.
func (p *pagerProbe) refusal(ctx context.Context, c pagerCandidate, silent, refused bool) (accepted bool, err error) {
	numbered := c.at.kind == pagerPage && refused && (silent || p.first.signals.page < 0)
	if !p.controlled && (numbered || p.refused > 1) {
		if err := p.control(ctx); err != nil {
			return false, err
		}
	}
	if !refused || !p.knowsParameter() {
		return false, nil
	}
	p.takes = append(p.takes, c.at.param)
	if !numbered || c.at.at == "1" {
		return false, nil
	}
	before := p.paging
	p.accept(c)
	if silent {
		accepted, err = p.readsPageNumber(ctx, c)
	} else {
		err = p.findPageBase(ctx, c)
		accepted = p.second != nil
	}
	if !accepted {
		p.paging = before
	}
	return accepted, err
}

// knowsParameter reports whether the server refused only the value. It accepts unknown parameters, or refuses them
// with another message.
func (p *pagerProbe) knowsParameter() bool {
	return p.controlled && (p.answers || !slices.Equal(p.words, p.strange))
}

func wordsWithout(text string, omitted ...string) []string {
	words := strings.FieldsFunc(text, func(c rune) bool { return unicode.IsSpace(c) || strings.ContainsRune(`"':;,.()`, c) })
	return slices.DeleteFunc(words, func(w string) bool { return slices.Contains(omitted, w) })
}

// noteBodyParameters detects that the server reads parameters in the body only. It refuses a parameter in the body,
// and ignores the parameter in the query.
func (p *pagerProbe) noteBodyParameters(param string, refused bool, like likeness) {
	switch {
	case !p.l.s.Pagination.Query:
		p.refusedInBody = ""
		if refused {
			p.refusedInBody = param
		}
	case p.refusedInBody == param && !refused && like == sameRecords:
		p.inBody = true
	}
}

func (p *pagerProbe) request(ctx context.Context, at position) (st *step, like likeness, err error) {
	name := at.param + "=" + short(at.at)
	if at.extra != "" {
		name = at.extra
	}
	if at.kind == pagerLink {
		name = "all parameters of the link"
	}
	st, err = p.l.look(ctx, at)
	if probeRefused(err) {
		if at.extra == "" && mayHoldBrokenRecord(at, err) && (p.broken == position{}) {
			p.broken = at
		}
		if _, ok := refusal(err); ok {
			p.refused++
			p.words = wordsWithout(err.Error(), at.param, at.at)
		}
		p.noteTried(name, err.Error())
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	like = p.compare(st)
	if like == otherRecords && len(p.l.s.Key) == 0 {
		unstable, err := p.l.unstable(ctx, p.first)
		if err != nil {
			p.l.c.release(st.a)
			return nil, 0, err
		}
		if unstable {
			p.first.note = "each reading returns other records, so pages cannot be compared"
			like = mostlySame
		}
	}
	p.noteTried(name, [...]string{"no records", "ignored", "ignored", "some of the first page's records", "other records"}[like])
	return st, like, nil
}

func short(v string) string {
	if len(v) > 16 {
		return v[:12] + "…"
	}
	return v
}

func (l *listReader) unstable(ctx context.Context, first *step) (bool, error) {
	st, err := l.look(ctx, position{})
	if err != nil {
		return false, err
	}
	defer l.c.release(st.a)
	return compare(first.batch, st.batch) == otherRecords, nil
}

// judge accepts a parameter that returns other records. If the list may end there, it also accepts a parameter that
// returns no records. Most of these need another probe.
func (p *pagerProbe) judge(ctx context.Context, c pagerCandidate, st *step, like likeness, silent bool) (accepted bool, err error) {
	echoed := c.at.kind == pagerPage && st.signals.page == c.at.number() && p.first.signals.page != st.signals.page
	if like == otherRecords && c.typ == "cursor" && st.signals.token == c.at.at {
		// The page states its own token. Either it is the last page, or the server ignores the parameter and returns
		// other records on every reading.
		before := p.first.batch
		if _, err := p.again(ctx); err != nil {
			return false, err
		}
		if compare(before, p.first.batch) == otherRecords {
			return false, p.unexplained("the list returns other records on every reading, and its " + c.at.param + " selects no page")
		}
	}
	if c.moment && (like != otherRecords || !p.safeMoment(st)) {
		return false, nil
	}
	switch {
	case like == otherRecords:
		p.second = st
	case like == noRecords && !silent && c.typ == "link":
		if incomplete, err := p.needsWholeLink(ctx, c); incomplete || err != nil {
			return false, err
		}
		p.second = st // the link leads to an empty page: that is the end
	case like == noRecords && !silent && c.at.kind == pagerPage && c.at.at != "1" && p.first.signals.page < 0:
		// The list may have two pages, numbered 0 and 1.
		before := p.paging
		p.accept(c)
		if err := p.findPageBase(ctx, c); err != nil || p.second == nil {
			p.paging = before
			return false, err
		}
		return true, nil
	case like == noRecords && !silent && c.typ == "offset" && c.at.number() > 2 && p.first.signals.offset == 1:
		return p.countsPages(ctx, c)
	case like == noRecords && (silent || echoed):
		if !silent {
			p.second = st
		}
	default:
		return false, nil
	}
	before := p.paging
	p.accept(c)
	accepted = true
	switch {
	case c.at.kind == pagerPage && like == noRecords && silent && !echoed:
		accepted, err = p.readsPageNumber(ctx, c)
	case c.at.kind == pagerPage && p.first.signals.page < 0:
		err = p.findPageBase(ctx, c)
	case c.at.kind == pagerOffset && like == noRecords:
		accepted, err = p.testsOffset(ctx, c)
	case c.at.kind == pagerOffset && c.typ == "offset":
		err = p.findOffsetOrigin(ctx, c)
	case c.at.kind == pagerCursor && like == noRecords && c.typ != "link":
		accepted, err = p.testsCursor(ctx, c)
	default:
		p.paging.Zero = c.at.kind == pagerPage && p.first.signals.page == 0
	}
	if !accepted {
		p.paging = before
	}
	return accepted, err
}

// needsWholeLink reports whether the server returns records only if it gets all parameters of the next link. One of
// the parameters returned none.
func (p *pagerProbe) needsWholeLink(ctx context.Context, c pagerCandidate) (bool, error) {
	all := p.inLink()
	if len(all) == 0 || c.at.kind == pagerLink || all[len(all)-1].at.kind != pagerLink {
		return false, nil
	}
	st, like, err := p.request(ctx, all[len(all)-1].at)
	if err != nil || st == nil {
		return false, err
	}
	p.l.c.release(st.a)
	return like != noRecords, nil
}

// safeMoment reports whether paging by a time loses no record unnoticed. Either the second page repeats the last
// record of the first page, or the list states a total, which would show the loss.
func (p *pagerProbe) safeMoment(st *step) bool {
	if p.first.signals.total >= 0 {
		return true
	}
	keys := p.first.batch.keys
	return len(keys) > 0 && slices.Contains(st.batch.keys, keys[len(keys)-1])
}

func (p *pagerProbe) accept(c pagerCandidate) {
	p.paging.Type, p.paging.Page, p.paging.Field, p.paging.Query = c.typ, c.at.param, c.field, p.l.s.Pagination.Query
	p.paging.One, p.paging.Zero = false, false
}
