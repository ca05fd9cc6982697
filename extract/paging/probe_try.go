package paging

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"unicode"
)

func (p *Probe) try(ctx context.Context, c Candidate, silent bool) (done bool, err error) {
	at := p.place(c.at)
	if p.triedAlone[at] {
		return false, nil
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
	echoed := c.at.Kind == KindPage && st.Signals.Page == c.at.Number() && p.First.Signals.Page != st.Signals.Page
	accepted, err := p.judge(ctx, Trial{Candidate: c, Page: st, Like: like, Silent: silent, Echoed: echoed})
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
func (p *Probe) refusal(ctx context.Context, c Candidate, silent, refused bool) (accepted bool, err error) {
	numbered := c.at.Kind == KindPage && refused && (silent || p.First.Signals.Page < 0)
	if !p.server.controlled && (numbered || p.refused > 1) {
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
		accepted, err = page{}.readsNumber(ctx, p, c)
	} else {
		err = page{}.findBase(ctx, p, c)
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
	return p.server.controlled && (p.server.answers || !slices.Equal(p.words, p.server.strange))
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
func (p *Probe) judge(ctx context.Context, t Trial) (accepted bool, err error) {
	c := t.Candidate
	verdict, err := c.pager.Judge(ctx, p, t)
	switch {
	case err != nil || verdict == Rejected:
		return false, err
	case verdict == Done:
		return true, nil
	case verdict == Second:
		p.Second = t.Page
	}
	before := p.Paging
	p.accept(c)
	accepted, err = c.at.pager().Confirm(ctx, p, t)
	if !accepted {
		p.Paging = before
	}
	return accepted, err
}

func (p *Probe) accept(c Candidate) {
	p.Paging.Type, p.Paging.Page, p.Paging.Field, p.Paging.Query = c.pager.Type(), c.at.Param, c.field, p.s.Pagination.Query
	p.Paging.One, p.Paging.Zero = false, false
}
