package paging

import (
	"context"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// cursor is the pager that requests the next page with a token from the answer: cursor=x after {"next_cursor": "x"}.
type cursor struct{ parameter }

// Type implements [Pager].
func (cursor) Type() string { return string(KindCursor) }

// Candidates returns requests that send the token of the answer, each in another parameter.
func (g cursor) Candidates(e *evidence) []Candidate {
	s := e.First.Signals
	if s.Token == "" || s.ranged || s.rangeUnit != "" {
		return nil
	}
	return e.named(g, e.progress.tokenParams(s))
}

// Describe implements [Pager].
func (cursor) Describe(at Position) string { return "the page after a " + at.Param } // not the value, which may be long

// NeedsNext implements [Pager].
func (cursor) NeedsNext(string) bool { return true }

// Judge rejects a list whose token does not change, although each reading returns other records.
func (g cursor) Judge(ctx context.Context, p *Probe, t Trial) (Verdict, error) {
	if t.Like == OtherRecords && t.Page.Signals.Token == t.Candidate.at.At {
		// The token on the page leads to this page itself. Either this page is the last page, or the server ignores the
		// parameter and returns other records on every reading.
		before := p.First.Hashes
		if _, err := p.Again(ctx); err != nil {
			return Rejected, err
		}
		if Compare(before, p.First.Hashes) == OtherRecords {
			return Rejected, p.Unexplained("the list returns other records on every reading, and its " + t.Candidate.at.Param + " selects no page")
		}
	}
	return g.parameter.Judge(ctx, p, t)
}

// Confirm tests a parameter again if the second page was empty.
func (g cursor) Confirm(ctx context.Context, p *Probe, t Trial) (accepted bool, err error) {
	if t.Like == NoRecords && t.Candidate.pager != Pager(link{}) {
		return g.acceptsEmpty(ctx, p, t.Candidate)
	}
	return true, nil
}

func (p *Progress) tokenParams(s Signals) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.Next)) {
		if s.Next.Get(name) == s.Token {
			names = append(names, name)
		}
	}
	words, own := schemas.Paging(), s.tokenName.name
	plain := strings.ReplaceAll(own, "-", "_")
	bare := withoutNext(plain)
	names = append(names, plain)
	if in := s.tokenName.in; plainIdentifier(in) && in != "" {
		if bare != "" && bare != plain {
			names = append(names, in+"["+bare+"]")
		}
		if words.PageObjects.Has(in) {
			names = append(names, in+"[cursor]", in+"["+plain+"]")
		}
	}
	names = append(names, words.Spellings(schemas.ParamToken, plain)...)
	if bare != "" {
		names = append(append(names, bare), words.Spellings(schemas.ParamToken, bare)...)
	}
	return records.Unique(append(names, words.TokenParameters(own)...))
}

// withoutNext turns nextPageToken into pageToken, and next_cursor into cursor. It returns "" for names without
// "next".
func withoutNext(name string) string {
	for _, prefix := range []string{"next_", "next-", "next", "Next"} {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok || rest == "" {
			continue
		}
		if prefix == "next" {
			r := []rune(rest)
			if !unicode.IsUpper(r[0]) {
				return rest
			}
			r[0] = unicode.ToLower(r[0])
			return string(r)
		}
		return rest
	}
	return ""
}

// acceptsEmpty tests a cursor parameter that returned no records for the id of the last record. For the id of the first
// record, the server must return the first page without that record.
func (cursor) acceptsEmpty(ctx context.Context, p *Probe, c Candidate) (accepted bool, err error) {
	if p.First.N == 1 {
		filters, err := p.filters(ctx)
		return !filters && err == nil, err
	}
	id := p.list.ID(p.First.Doc, p.First.First)
	if id == "" {
		return false, nil
	}
	st, _, err := p.request(ctx, Position{Kind: KindCursor, Param: c.at.Param, At: id})
	if err != nil || st == nil {
		return false, err
	}
	defer p.list.Release(st)
	return p.lacksFirstRecord(ctx, st)
}

// lacksFirstRecord reports whether an answer is the first page without its first record. If the first page has only one
// record, the answer must be empty. An empty answer proves nothing if the server treats unknown parameters as filters,
// so lacksFirstRecord then returns false.
func (p *Probe) lacksFirstRecord(ctx context.Context, st *Page) (bool, error) {
	keys, got := p.First.Keys, st.Keys
	if len(keys) > 1 {
		return len(got) >= len(keys)-1 && slices.Equal(keys[1:], got[:len(keys)-1]), nil
	}
	if len(got) > 0 {
		return false, nil
	}
	filters, err := p.filters(ctx)
	return !filters && err == nil, err
}
