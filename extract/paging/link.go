package paging

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// link is the pager that follows a link to the next page. It sends only one parameter of the link, or all of them.
type link struct{ parameter }

// Type implements [Pager].
func (link) Type() string { return string(KindLink) }

// Second implements [Pager].
func (link) Second(e *evidence, param string) Position {
	if v := e.First.Signals.Next.Get(param); v != "" {
		return linkPosition(param, v)
	}
	return Position{}
}

// Describe implements [Pager].
func (link) Describe(Position) string { return "the page after a next link" }

// Valid implements [Pager].
func (link) Valid(at Position) bool { return at.At != "" && at.Param == "" }

// Send implements [Pager].
func (link) Send(at Position, set func(name, value string)) (ranged string) {
	all, _ := url.ParseQuery(at.At) // valid, because url.Values.Encode wrote it
	for name := range all {
		set(name, all.Get(name))
	}
	return ""
}

// NeedsNext implements [Pager].
func (link) NeedsNext(string) bool { return true }

// Judge accepts an empty page as the end, unless the server returns records for all parameters of the link together.
func (g link) Judge(ctx context.Context, p *Probe, t Trial) (Verdict, error) {
	if t.Like != NoRecords || t.Silent {
		return g.parameter.Judge(ctx, p, t)
	}
	if incomplete, err := g.needsAll(ctx, p, t.Candidate); incomplete || err != nil {
		return Rejected, err
	}
	return Second, nil
}

// Candidates returns one candidate per parameter of the next link. It leaves out credentials and parameters that the
// stream itself sets. The last candidate sends all of the parameters.
func (g link) Candidates(e *evidence) []Candidate {
	q := e.First.Signals.Next
	names := slices.Sorted(maps.Keys(q))
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	words := schemas.Paging()
	var out []Candidate
	rest := url.Values{}
	for _, name := range names {
		if v := q.Get(name); v != "" && !e.fixed(name) && !secretLike(name) {
			rest.Set(name, v)
			if !words.Parameter(schemas.ParamSize, name) || leads(name) {
				out = append(out, Candidate{pager: g, at: linkPosition(name, v)})
				if e.s.Method == http.MethodPost && plainIdentifier(name) {
					out = append(out, Candidate{pager: g, at: linkPosition(nestedLink+"["+name+"]", v)})
				}
			}
		}
	}
	if len(rest) > 1 {
		out = append(out, Candidate{pager: g, at: Position{Kind: KindLink, At: rest.Encode()}})
	}
	return out
}

// nestedLink is the member of a POST body that may hold the parameters of a next link.
const nestedLink = "pagination"

// secretLike reports whether a parameter of a link may be a credential. Such a parameter is never sent.
// Invariant 10
func secretLike(name string) bool {
	low := strings.ToLower(name)
	return strings.Contains(low, "key") && !strings.Contains(low, "start") && !strings.Contains(low, "next") && !strings.Contains(low, "page") || strings.Contains(low, "secret") || strings.Contains(low, "password") || strings.Contains(low, "signature") ||
		low == "access_token" || low == "auth" || low == "authorization"
}

// rank returns the place of a name among the usual parameters of a link. Unusual parameters come last.
func rank(name string) int {
	usual := schemas.Paging().Parameters(schemas.ParamLink)
	if i := slices.Index(usual, name); i >= 0 {
		return i
	}
	return len(usual)
}

func leads(name string) bool {
	return slices.Contains(schemas.Paging().Parameters(schemas.ParamLink), name)
}

// linked() returns the position to which a next link leads. If probes found that the server needs all parameters of the
// link, the position has all of them except credentials. Otherwise the position has only one parameter: the parameter
// that the probes accepted, or a usual parameter.
func (p *Progress) linked(q url.Values) (Position, bool) {
	if p.Hint.Type == "link" && p.Hint.Page == "" && p.Settled {
		all := url.Values{}
		for name := range q {
			if v := q.Get(name); v != "" && !secretLike(name) {
				all.Set(name, v)
			}
		}
		return Position{Kind: KindLink, At: all.Encode()}, len(all) > 0
	}
	names := schemas.Paging().Parameters(schemas.ParamLink)
	if p.Hint.Page != "" {
		names = append([]string{p.Hint.Page}, names...)
	}
	for _, name := range names {
		v := q.Get(name)
		if in, member, ok := CutBracket(name); v == "" && ok && in == nestedLink {
			v = q.Get(member)
		}
		if v != "" {
			return linkPosition(name, v), true
		}
	}
	return Position{}, false
}

// needsAll is called after a single parameter of the next link returned no records. It reports whether the server
// returns records for all parameters of the link together.
func (link) needsAll(ctx context.Context, p *Probe, c Candidate) (bool, error) {
	all := link{}.Candidates(&p.evidence)
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
