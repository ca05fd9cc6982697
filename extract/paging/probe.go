package paging

import (
	"context"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// Probe finds out how a list continues after its first page. It tries parameters, and accepts the first one that
// returns other records. If no parameter does, the first page is the whole list.
type Probe struct {
	evidence

	Second   *Page
	Paging   schemas.Pagination
	Whole    bool // the first page is the whole list
	Unproved bool // some parameters could not be tried, and all others returned the same records
	Counts   bool // the total counts only the records of a page
	Shrank   bool // smaller pages showed how the list continues
	Reread   bool // the first page was read again and was the same
	Renamed  bool // an answer had the keys of the first page, but other content
	Tried    []string
	Broken   Position // the server failed at this position, so the page may hold a broken record; zero for none

	refused       int      // number of refused parameters that were sent one by one
	words         []string // words of the last refusal
	reacted       bool     // the server reacted to a paging parameter
	changedToPart bool     // the list reacted, but returned no other records than those of the first page
	inBody        bool
	refusedInBody string // the last parameter that the server refused in the body of a POST
	lastContent   uint64 // hash of the first page's content at its last reading
	triedAlone    map[Position]bool
	known         bool // the server knows the last parameter, because it returned the first page again
}

const maxReread = 3

// NewProbe returns a probe for a list whose first page was read.
func NewProbe(l List, progress *Progress, first *Page, lastID string) *Probe {
	s := l.Stream()
	return &Probe{
		evidence: evidence{list: l, s: s, progress: progress, First: first, lastID: lastID}, Paging: s.Pagination, triedAlone: map[Position]bool{},
	}
}

// Release frees the memory of the second page.
func (p *Probe) Release() {
	if p.Second != nil {
		p.list.Release(p.Second)
	}
}

// Compare compares a page with the first page. It also sets p.Renamed if the keys are equal but the content differs,
// because then the key may be wrong.
func (p *Probe) Compare(st *Page) Likeness {
	p.Renamed = p.Renamed || Renamed(p.First.Hashes, st.Hashes)
	return Compare(p.First.Hashes, st.Hashes)
}

// Again reads the first page again. If its records have changed, the new page replaces the old one, and the result
// moved is true.
func (p *Probe) Again(ctx context.Context) (moved bool, err error) {
	fresh, err := p.list.Look(ctx, Position{})
	if err != nil {
		return false, err
	}
	p.lastContent = Sum(fresh.Content)
	if Compare(p.First.Hashes, fresh.Hashes) == SameRecords {
		p.list.Release(fresh)
		return false, nil
	}
	if total := fresh.Signals.Total; p.First.Total >= 0 {
		p.First.Total, p.First.Signals.Total, p.progress.Total = total, total, total
	}
	p.progress.Rows += int64(fresh.N - p.First.N)
	p.list.Release(p.First)
	p.First.Answer, p.First.Doc, p.First.Hashes = fresh.Answer, fresh.Doc, fresh.Hashes
	return true, nil
}

const noParameter = "no_such_parameter"

// control sends a parameter that no server knows. If the server refuses it, or treats it as a filter, each further
// request tries only one candidate.
func (p *Probe) control(ctx context.Context) error {
	p.server.controlled = true
	st, like, err := p.request(ctx, Position{Extra: noParameter + "=1", Placed: true})
	if err != nil {
		return err
	}
	if st == nil {
		p.server.refuses, p.server.strange = true, wordsWithout(strings.Join(p.words, " "), noParameter)
		return nil
	}
	p.list.Release(st)
	p.server.answers = true
	p.server.refuses = like == NoRecords
	p.server.lenient = like == SameRecords
	return nil
}

// filters reports whether the server treats unknown parameters as filters: it returns no records for noParameter.
func (p *Probe) filters(ctx context.Context) (bool, error) {
	if !p.server.controlled {
		if err := p.control(ctx); err != nil {
			return false, err
		}
	}
	return p.server.answers && p.server.refuses, nil
}

func (p *Probe) place(at Position) Position {
	at.Placed = p.s.Pagination.Query
	return at
}

// knowsParameter reports whether the server knows a refused parameter, and refused only its value. That is so if the
// server accepts unknown parameters, or refuses them with another message.
func (p *Probe) knowsParameter() bool {
	return p.server.controlled && (p.server.answers || !slices.Equal(p.words, p.server.strange))
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

func (p *Probe) unstable(ctx context.Context) (bool, error) {
	st, err := p.list.Look(ctx, Position{})
	if err != nil {
		return false, err
	}
	defer p.list.Release(st)
	return Compare(p.First.Hashes, st.Hashes) == OtherRecords, nil
}

func (p *Probe) accept(c Candidate) {
	p.Paging.Type, p.Paging.Page, p.Paging.Field, p.Paging.Query = c.pager.Type(), c.at.Param, c.field, p.s.Pagination.Query
	p.Paging.One, p.Paging.Zero = false, false
}

func (p *Probe) noteTried(what, result string) {
	p.Tried = append(p.Tried, what+": "+wire.Excerpt(result))
}

// Unexplained returns the error for a list that may have more records than the probes can read. // Invariant 14
func (p *Probe) Unexplained(what string) error {
	return &UnexplainedError{Seen: what, Tried: p.Tried}
}
