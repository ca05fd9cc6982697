package paging

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"unicode"
)

func (p *Probe) try(ctx context.Context, c candidate, silent bool) (done bool, err error) {
	at := p.place(c.at)
	if p.triedAlone[at] {
		return false, nil
	}
	if p.triedAlone == nil {
		p.triedAlone = map[Position]bool{}
	}
	p.triedAlone[at] = true
	refused := p.refused
	st, like, err := p.request(ctx, c.at)
	if err != nil {
		return false, err
	}
	if p.s.Method == http.MethodPost {
		p.noteBodyParameters(c.at.Param, st == nil, like)
	}
	if st == nil {
		return p.refusal(ctx, c, silent, p.refused > refused)
	}
	p.known = like == SameRecords || like == MostlySame
	accepted, err := p.judge(ctx, c, st, like, silent)
	if p.Second != st {
		p.list.Release(st)
	}
	return accepted, err
}

func (p *Probe) place(at Position) Position {
	at.Placed = p.s.Pagination.Query
	return at
}

// refusal judges a parameter whose value the server refuses. If the server knows the parameter, the list may have
// only one page, or two pages that are numbered from 0.
func (p *Probe) refusal(ctx context.Context, c candidate, silent, refused bool) (accepted bool, err error) {
	numbered := c.at.Kind == KindPage && refused && (silent || p.First.Signals.Page < 0)
	if !p.controlled && (numbered || p.refused > 1) {
		if err := p.control(ctx); err != nil {
			return false, err
		}
	}
	if !refused || !p.knowsParameter() {
		return false, nil
	}
	p.takes = append(p.takes, c.at.Param)
	if !numbered || c.at.At == "1" {
		return false, nil
	}
	before := p.Paging
	p.accept(c)
	if silent {
		accepted, err = p.readsPageNumber(ctx, c)
	} else {
		err = p.findPageBase(ctx, c)
		accepted = p.Second != nil
	}
	if !accepted {
		p.Paging = before
	}
	return accepted, err
}

// knowsParameter reports whether the server refused only the value. It accepts unknown parameters, or refuses them
// with another message.
func (p *Probe) knowsParameter() bool {
	return p.controlled && (p.answers || !slices.Equal(p.words, p.strange))
}

func wordsWithout(text string, omitted ...string) []string {
	words := strings.FieldsFunc(text, func(c rune) bool { return unicode.IsSpace(c) || strings.ContainsRune(`"':;,.()`, c) })
	return slices.DeleteFunc(words, func(w string) bool { return slices.Contains(omitted, w) })
}

// noteBodyParameters detects that the server reads parameters in the body only. It refuses a parameter in the body,
// and ignores the parameter in the query.
func (p *Probe) noteBodyParameters(param string, refused bool, like Likeness) {
	switch {
	case !p.s.Pagination.Query:
		p.refusedInBody = ""
		if refused {
			p.refusedInBody = param
		}
	case p.refusedInBody == param && !refused && like == SameRecords:
		p.inBody = true
	}
}

func (p *Probe) request(ctx context.Context, at Position) (st *Page, like Likeness, err error) {
	name := at.Param + "=" + Short(at.At)
	if at.Extra != "" {
		name = at.Extra
	}
	if at.Kind == KindLink {
		name = "all parameters of the link"
	}
	st, err = p.list.Look(ctx, at)
	if Refused(err) {
		if at.Extra == "" && mayHoldBrokenRecord(at, err) && (p.Broken == Position{}) {
			p.Broken = at
		}
		if _, ok := EndStatus(err); ok {
			p.refused++
			p.words = wordsWithout(err.Error(), at.Param, at.At)
		}
		p.noteTried(name, err.Error())
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	like = p.Compare(st)
	if like == OtherRecords && len(p.s.Key) == 0 {
		unstable, err := p.unstable(ctx)
		if err != nil {
			p.list.Release(st)
			return nil, 0, err
		}
		if unstable {
			p.First.Note = "each reading returns other records, so pages cannot be compared"
			like = MostlySame
		}
	}
	p.noteTried(name, [...]string{"no records", "ignored", "ignored", "some of the first page's records", "other records"}[like])
	return st, like, nil
}

// Short shortens a value for a message.
func Short(v string) string {
	if len(v) > 16 {
		return v[:12] + "…"
	}
	return v
}

func (p *Probe) unstable(ctx context.Context) (bool, error) {
	st, err := p.list.Look(ctx, Position{})
	if err != nil {
		return false, err
	}
	defer p.list.Release(st)
	return Compare(p.First.Hashes, st.Hashes) == OtherRecords, nil
}

// judge accepts a parameter that returns other records. If the list may end there, it also accepts a parameter that
// returns no records. Most of these need another probe.
func (p *Probe) judge(ctx context.Context, c candidate, st *Page, like Likeness, silent bool) (accepted bool, err error) {
	echoed := c.at.Kind == KindPage && st.Signals.Page == c.at.Number() && p.First.Signals.Page != st.Signals.Page
	if like == OtherRecords && c.typ == "cursor" && st.Signals.Token == c.at.At {
		// The page states its own token. Either it is the last page, or the server ignores the parameter and returns
		// other records on every reading.
		before := p.First.Hashes
		if _, err := p.Again(ctx); err != nil {
			return false, err
		}
		if Compare(before, p.First.Hashes) == OtherRecords {
			return false, p.Unexplained("the list returns other records on every reading, and its " + c.at.Param + " selects no page")
		}
	}
	if c.moment && (like != OtherRecords || !p.safeMoment(st)) {
		return false, nil
	}
	switch {
	case like == OtherRecords:
		p.Second = st
	case like == NoRecords && !silent && c.typ == "link":
		if incomplete, err := p.needsWholeLink(ctx, c); incomplete || err != nil {
			return false, err
		}
		p.Second = st // the link leads to an empty page: that is the end
	case like == NoRecords && !silent && c.at.Kind == KindPage && c.at.At != "1" && p.First.Signals.Page < 0:
		// The list may have two pages, numbered 0 and 1.
		before := p.Paging
		p.accept(c)
		if err := p.findPageBase(ctx, c); err != nil || p.Second == nil {
			p.Paging = before
			return false, err
		}
		return true, nil
	case like == NoRecords && !silent && c.typ == "offset" && c.at.Number() > 2 && p.First.Signals.offset == 1:
		return p.countsPages(ctx, c)
	case like == NoRecords && (silent || echoed):
		if !silent {
			p.Second = st
		}
	default:
		return false, nil
	}
	before := p.Paging
	p.accept(c)
	accepted = true
	switch {
	case c.at.Kind == KindPage && like == NoRecords && silent && !echoed:
		accepted, err = p.readsPageNumber(ctx, c)
	case c.at.Kind == KindPage && p.First.Signals.Page < 0:
		err = p.findPageBase(ctx, c)
	case c.at.Kind == KindOffset && like == NoRecords:
		accepted, err = p.testsOffset(ctx, c)
	case c.at.Kind == KindOffset && c.typ == "offset":
		err = p.findOffsetOrigin(ctx, c)
	case c.at.Kind == KindCursor && like == NoRecords && c.typ != "link":
		accepted, err = p.testsCursor(ctx, c)
	default:
		p.Paging.Zero = c.at.Kind == KindPage && p.First.Signals.Page == 0
	}
	if !accepted {
		p.Paging = before
	}
	return accepted, err
}

// needsWholeLink reports whether the server returns records only if it gets all parameters of the next link. One of
// the parameters returned none.
func (p *Probe) needsWholeLink(ctx context.Context, c candidate) (bool, error) {
	all := p.inLink()
	if len(all) == 0 || c.at.Kind == KindLink || all[len(all)-1].at.Kind != KindLink {
		return false, nil
	}
	st, like, err := p.request(ctx, all[len(all)-1].at)
	if err != nil || st == nil {
		return false, err
	}
	p.list.Release(st)
	return like != NoRecords, nil
}

// safeMoment reports whether paging by a time loses no record unnoticed. Either the second page repeats the last
// record of the first page, or the list states a total, which would show the loss.
func (p *Probe) safeMoment(st *Page) bool {
	if p.First.Signals.Total >= 0 {
		return true
	}
	keys := p.First.Keys
	return len(keys) > 0 && slices.Contains(st.Keys, keys[len(keys)-1])
}

func (p *Probe) accept(c candidate) {
	p.Paging.Type, p.Paging.Page, p.Paging.Field, p.Paging.Query = c.typ, c.at.Param, c.field, p.s.Pagination.Query
	p.Paging.One, p.Paging.Zero = false, false
}
