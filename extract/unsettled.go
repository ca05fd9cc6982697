package extract

import (
	"fmt"
	"strings"
)

func (p *pagerProbe) noteTried(what, result string) {
	p.tried = append(p.tried, what+": "+excerpt(result))
}

// unexplained returns the error for a list that the probes found no way to read completely. // Invariant 14
func (p *pagerProbe) unexplained(what string) error {
	return malformed(p.l.s, position{}, &UnsettledError{
		Stream: p.l.s.Name, Fact: FactPager, Seen: what, Tried: p.tried,
		YAML: fmt.Sprintf("streams:\n  %s:\n    pagination: {type: page, page: PARAMETER, size: PARAMETER, limit: 100} # or {type: none} if the list has one page\n", p.l.s.Name),
	})
}

// UnsettledError reports something about an endpoint that probes could not find out. It is the Err
// of a [*wire.Error].
type UnsettledError struct {
	Stream string
	Fact   string   // one of the Fact constants
	Seen   string   // what the probes saw
	Tried  []string // rejected hypotheses, each with the reason
	YAML   string   // lines for pipelines.yaml, with placeholders to fill in
}

// Error returns a sentence without the YAML, which is for the caller to print below it.
func (e *UnsettledError) Error() string {
	text := e.Seen
	if len(e.Tried) > 0 {
		text += "; tried " + strings.Join(e.Tried, ", ")
	}
	return text
}
