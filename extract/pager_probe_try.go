package extract

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// maxSingles bounds how many parameters of one group are tried by themselves where
// the server refuses to be asked by several at once.
const maxSingles = 24

// group tries the candidates of one kind; of a POST in its body first, then in its
// query.
func (p *pagerProbe) group(ctx context.Context, g []pagerCandidate, silent bool) (done bool, err error) {
	before := p.l.s.Pagination.Query
	places := []bool{before}
	if p.l.s.Method == http.MethodPost && p.l.s.Stated["pagination"] == "" {
		places = []bool{false, true}
	}
	for _, place := range places {
		if place && p.inBody {
			continue
		}
		p.l.s.Pagination.Query = place
		for _, part := range apart(g) {
			if done, err := p.search(ctx, part, silent, false); done || err != nil {
				return done, err
			}
		}
	}
	p.l.s.Pagination.Query = before
	return false, nil
}

// apart separates page and its like from page[number] and its like: no request has
// both.
func apart(g []pagerCandidate) [][]pagerCandidate {
	var flat, nested []pagerCandidate
	for _, c := range g {
		if strings.HasPrefix(c.at.param, "page[") {
			nested = append(nested, c)
		} else {
			flat = append(flat, c)
		}
	}
	return [][]pagerCandidate{flat, nested}
}

// search tries all candidates at once, if they are many, then each half of those
// that made a difference. reacts says that one of them is known to make one.
func (p *pagerProbe) search(ctx context.Context, g []pagerCandidate, silent, reacts bool) (done bool, err error) {
	if len(g) > 2 && !p.refuses {
		if !reacts {
			like, refused, err := p.bulk(ctx, g)
			switch {
			case err != nil:
				return false, err
			case refused:
				p.refuses = true
				return p.search(ctx, g, silent, false)
			case like == sameRecords || like == mostlySame:
				return false, nil
			}
		}
		half := len(g) / 2
		like, refused, err := p.bulk(ctx, g[:half])
		if err != nil {
			return false, err
		}
		if p.refuses = refused; refused {
			return p.search(ctx, g, silent, false)
		}
		if like == sameRecords || like == mostlySame {
			return p.search(ctx, g[half:], silent, true)
		}
		if done, err := p.search(ctx, g[:half], silent, true); done || err != nil {
			return done, err
		}
		return p.search(ctx, g[half:], silent, false)
	}
	if p.refuses {
		g = g[:min(len(g), maxSingles)]
	}
	for _, c := range g {
		if p.l.requests > maxSearch {
			return false, nil
		}
		if done, err := p.try(ctx, c, silent); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// bulk sends all candidates in one request; refused says that the server did not
// take it.
func (p *pagerProbe) bulk(ctx context.Context, g []pagerCandidate) (like likeness, refused bool, err error) {
	extra := make(query)
	for _, c := range g {
		extra.add(c.at.param, c.at.at)
	}
	st, err := p.l.look(ctx, position{extra: extra.encode(), placed: true})
	if _, ok := refusal(err); ok {
		if !p.controlled {
			if err := p.control(ctx); err != nil {
				return 0, false, err
			}
		}
		if p.lenient {
			return otherRecords, false, nil // it refuses the value of one that it knows
		}
		return 0, true, nil // each by itself, then
	}
	if minded(err) {
		return otherRecords, false, nil // something in it makes the server stumble
	}
	if err != nil {
		return 0, false, err
	}
	p.l.c.release(st.a)
	like = p.compare(st)
	if like == sameRecords || like == mostlySame {
		p.say(extra.names(), "ignored")
	}
	if like == noRecords && !p.controlled {
		if err := p.control(ctx); err != nil || p.refuses {
			return like, p.refuses, err
		}
	}
	return like, false, nil
}

// noParameter is a parameter that no server knows.
const noParameter = "no_such_parameter"

// control asks with a parameter that no server knows. One that refuses it, or has no
// records then since it takes what it does not know for a filter, cannot be asked by
// several at once.
func (p *pagerProbe) control(ctx context.Context) error {
	p.controlled = true
	st, like, err := p.ask(ctx, position{extra: noParameter + "=1", placed: true})
	if err != nil {
		return err
	}
	if st == nil {
		p.refuses = true
		return nil
	}
	p.l.c.release(st.a)
	p.refuses = like == noRecords
	p.lenient = like == sameRecords
	return nil
}

// cutBracket takes page[size] apart.
func cutBracket(name string) (in, member string, ok bool) {
	in, rest, ok := strings.Cut(name, "[")
	return in, strings.TrimSuffix(rest, "]"), ok && strings.HasSuffix(rest, "]") && in != "" && !strings.Contains(rest[:len(rest)-1], "]")
}

// try asks for the second page by one parameter.
func (p *pagerProbe) try(ctx context.Context, c pagerCandidate, silent bool) (done bool, err error) {
	at := c.at
	at.placed = p.l.s.Pagination.Query
	if p.asked[at] {
		return false, nil
	}
	if p.asked == nil {
		p.asked = map[position]bool{}
	}
	p.asked[at] = true
	st, like, err := p.ask(ctx, c.at)
	if err != nil {
		return false, err
	}
	if p.l.s.Method == http.MethodPost {
		p.minded(c.at.param, st == nil, like)
	}
	if st == nil {
		if p.refused > 1 && !p.controlled {
			err = p.control(ctx)
		}
		return false, err
	}
	accepted, err := p.judge(ctx, c, st, like, silent)
	if p.second != st {
		p.l.c.release(st.a)
	}
	return accepted, err
}

// minded takes note of where a POST looks for its parameters: where it refuses one
// in its body that it ignores in its query, they are in its body.
func (p *pagerProbe) minded(param string, refused bool, like likeness) {
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

// ask makes one probe and says what came; st is nil for a refusal.
func (p *pagerProbe) ask(ctx context.Context, at position) (st *step, like likeness, err error) {
	name := at.param + "=" + short(at.at)
	if at.extra != "" {
		name = at.extra
	}
	if at.kind == pagerLink {
		name = "all parameters of the link"
	}
	st, err = p.l.look(ctx, at)
	if minded(err) {
		if at.extra == "" && stumbled(at, err) && (p.broken == position{}) {
			p.broken = at
		}
		if _, ok := refusal(err); ok {
			p.refused++
		}
		p.say(name, err.Error())
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	like = p.compare(st)
	if like == otherRecords && len(p.l.s.Key) == 0 && p.l.unstable(ctx, p.first) {
		p.first.note = "records change by being read: pages cannot be told apart"
		like = mostlySame
	}
	p.say(name, [...]string{"no records", "ignored", "ignored", "some of the first page's records", "other records"}[like])
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
func (p *pagerProbe) judge(ctx context.Context, c pagerCandidate, st *step, like likeness, silent bool) (accepted bool, err error) {
	echoed := c.at.kind == pagerPage && st.signals.page == c.at.number() && p.first.signals.page != st.signals.page
	if like == otherRecords && c.typ == "cursor" && st.signals.token == c.at.at {
		// The page points to itself, as a last page may, or as one that ignores the
		// parameter and shows other records in each reading.
		before := p.first.batch
		if _, err := p.again(ctx); err != nil {
			return false, err
		}
		if compare(before, p.first.batch) == otherRecords {
			return false, p.unexplained("the list shows other records in each reading, and its " + c.at.param + " leads nowhere")
		}
	}
	if c.moment && (like != otherRecords || !p.safeMoment(st)) {
		return false, nil
	}
	switch {
	case like == otherRecords:
		p.second = st
	case like == noRecords && !silent && c.typ == "link":
		p.second = st // the link that the list states leads to an empty page: that is its end
	case like == noRecords && !silent && c.at.kind == pagerPage && p.first.signals.page < 0:
		// The list may have two pages, and count them from 0.
		before := p.paging
		p.accept(c)
		if err := p.base(ctx, c); err != nil || p.second == nil {
			p.paging = before
			return false, err
		}
		return true, nil
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
		accepted, err = p.minds(ctx, c)
	case c.at.kind == pagerPage && p.first.signals.page < 0:
		err = p.base(ctx, c)
	case c.at.kind == pagerOffset && like == noRecords:
		accepted, err = p.stride(ctx, c)
	case c.at.kind == pagerOffset && c.typ == "offset":
		err = p.origin(ctx, c)
	case c.at.kind == pagerCursor && like == noRecords && c.typ != "link":
		accepted, err = p.follows(ctx, c)
	default:
		p.paging.Zero = c.at.kind == pagerPage && p.first.signals.page == 0
	}
	if !accepted {
		p.paging = before
	}
	return accepted, err
}

// safeMoment reports whether no record can be lost between pages that are cut by a
// time: the page begins with the last record before it, or a total would tell.
func (p *pagerProbe) safeMoment(st *step) bool {
	if p.first.signals.total >= 0 {
		return true
	}
	keys := p.first.batch.keys
	return len(keys) > 0 && slices.Contains(st.batch.keys, keys[len(keys)-1])
}

// accept takes a pagerCandidate's way of paging.
func (p *pagerProbe) accept(c pagerCandidate) {
	p.paging.Type, p.paging.Page, p.paging.Field, p.paging.Query = c.typ, c.at.param, c.field, p.l.s.Pagination.Query
	p.paging.One, p.paging.Zero = false, false
}

// minds reports whether a list that has nothing on its second page minds the
// number at all: asked for its first page by it, it must come again. A server that
// takes what it does not know for a filter is empty then, too.
func (p *pagerProbe) minds(ctx context.Context, c pagerCandidate) (bool, error) {
	for _, number := range []string{"1", "0"} {
		st, like, err := p.ask(ctx, position{kind: pagerPage, param: c.at.param, at: number})
		if err != nil {
			return false, err
		}
		if st == nil {
			continue
		}
		if like == otherRecords && number == "1" {
			p.second, p.paging.Zero = st, true
			return true, nil
		}
		p.l.c.release(st.a)
		if like == sameRecords || like == mostlySame {
			p.paging.Zero = number == "0"
			return true, nil
		}
	}
	return false, nil
}

// base finds out whether pages are counted from 0: then page 1 is the second.
func (p *pagerProbe) base(ctx context.Context, c pagerCandidate) error {
	one := position{kind: pagerPage, param: c.at.param, at: "1"}
	st, like, err := p.ask(ctx, one)
	if err != nil || st == nil {
		return err
	}
	if like == otherRecords {
		if p.second != nil {
			p.l.c.release(p.second.a)
		}
		p.second, p.paging.Zero = st, true
		return nil
	}
	p.l.c.release(st.a)
	return nil
}

// origin finds out whether offsets are counted from 1: then the offset 1 is the
// first page, and the second begins one later. A record that is inserted meanwhile
// would show the same, so that the first page must still be what it was.
func (p *pagerProbe) origin(ctx context.Context, c pagerCandidate) error {
	for range maxReread {
		st, _, err := p.ask(ctx, position{kind: pagerOffset, param: c.at.param, at: "1"})
		if err != nil {
			return err
		}
		if st != nil {
			p.l.c.release(st.a)
		}
		if st == nil && p.first.signals.offset != 1 || st != nil && !slices.Equal(st.batch.keys, p.first.batch.keys) {
			return nil // in the same order, too: a later record may have the key of the first
		}
		moved, err := p.again(ctx)
		if err != nil {
			return err
		}
		if !moved {
			return p.countFromOne(ctx, c)
		}
	}
	return p.unexplained("the list changes too fast to tell whether " + c.at.param + " counts from 0 or from 1")
}

// countFromOne takes note that offsets are counted from 1, and reads the second page
// anew.
func (p *pagerProbe) countFromOne(ctx context.Context, c pagerCandidate) error {
	p.paging.One = true
	if p.second == nil {
		return nil
	}
	at := c.at
	at.at = strconv.FormatInt(at.number()+1, 10)
	fresh, err := p.l.look(ctx, at)
	if err != nil {
		return err
	}
	p.l.c.release(p.second.a)
	p.second = fresh
	return nil
}

// stride tries an offset that leaves nothing with that of one record: it must
// leave out the first one. Where it brings others, it counts pages.
func (p *pagerProbe) stride(ctx context.Context, c pagerCandidate) (accepted bool, err error) {
	one := position{kind: pagerPage, param: c.at.param, at: "1"}
	st, like, err := p.ask(ctx, one)
	if err != nil || st == nil {
		return false, err
	}
	if like == otherRecords && p.first.batch.n > 2 {
		p.second, p.paging.Type, p.paging.Zero = st, "page", true
		return true, nil
	}
	defer p.l.c.release(st.a)
	return p.shifted(st), nil
}

// follows tries a parameter that leaves nothing behind the last record with the
// first one: everything but that must come.
func (p *pagerProbe) follows(ctx context.Context, c pagerCandidate) (accepted bool, err error) {
	id := p.l.idOf(p.first.a.d, p.first.batch.first)
	if id == "" || p.first.batch.n < 2 {
		return p.first.batch.n == 1, nil
	}
	st, _, err := p.ask(ctx, position{kind: pagerCursor, param: c.at.param, at: id})
	if err != nil || st == nil {
		return false, err
	}
	defer p.l.c.release(st.a)
	return p.shifted(st), nil
}

// shifted reports whether an answer is the first page from its second record on.
func (p *pagerProbe) shifted(st *step) bool {
	keys, got := p.first.batch.keys, st.batch.keys
	if len(keys) == 1 {
		return len(got) == 0
	}
	return len(got) >= len(keys)-1 && slices.Equal(keys[1:], got[:len(keys)-1])
}
