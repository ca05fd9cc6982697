package extract

import (
	"fmt"
	"strings"
)

func (p *pagerProbe) noteTried(what, result string) {
	p.tried = append(p.tried, what+": "+excerpt(result))
}

// unexplained returns the error of a list that may be longer than what the probes can read. // Invariant 14
func (p *pagerProbe) unexplained(what string) error {
	return malformed(p.l.s, position{}, &UnsettledError{
		Stream: p.l.s.Name, Fact: FactPager, Seen: what, Tried: p.tried,
		YAML: fmt.Sprintf("streams:\n  %s:\n    pagination: {type: page, page: PARAMETER, size: PARAMETER, limit: 100} # or {type: none} if the list has one page\n", p.l.s.Name),
	})
}

// UnsettledError says what the probes could not find out about an endpoint. It is the Err of a [*wire.Error].
type UnsettledError struct {
	Stream string
	Fact   string   // one of the Fact constants
	Seen   string   // what the probes saw
	Tried  []string // rejected hypotheses, each with the reason
	YAML   string   // lines for pipelines.yaml, with placeholders to fill in
}

// Error returns a sentence without the YAML. Callers print the YAML below it.
func (e *UnsettledError) Error() string {
	text := e.Seen
	if len(e.Tried) > 0 {
		text += "; tried " + strings.Join(e.Tried, ", ")
	}
	return text
}
