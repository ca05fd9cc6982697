package extract

import (
	"fmt"
	"strings"
)

func (p *pagerProbe) say(what, came string) { p.tried = append(p.tried, what+": "+excerpt(came)) }

// unexplained is the error of a list that the probe cannot read as a whole.
// Invariant 14
func (p *pagerProbe) unexplained(what string) error {
	return malformed(p.l.s, position{}, &UnsettledError{
		Stream: p.l.s.Name, About: FactPager, Seen: what, Tried: p.tried,
		YAML: fmt.Sprintf("streams:\n  %s:\n    pagination: {type: page, page: PARAMETER, size: PARAMETER, limit: 100} # or {type: none}: all is on one page\n", p.l.s.Name),
	})
}

// UnsettledError says what could not be found out about an endpoint. It is the
// Err of a [*wire.Error].
type UnsettledError struct {
	Stream string
	About  string   // one of the Fact constants
	Seen   string   // why it matters
	Tried  []string // the hypotheses that were given up, each with the reason
	YAML   string   // what to add to pipelines.yaml, with names to fill in
}

// Error reads as a sentence. It does not contain the YAML, which the caller prints below
// it.
func (e *UnsettledError) Error() string {
	text := e.Seen
	if len(e.Tried) > 0 {
		text += "; tried " + strings.Join(e.Tried, ", ")
	}
	return text
}
