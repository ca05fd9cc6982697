package extract

import (
	"errors"
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/extract/paging"
)

// If probes could not find out how the list continues, unsettled turns their error into the error of the stream.
func (l *listClient) unsettled(err error) error {
	e, ok := errors.AsType[*paging.UnexplainedError](err)
	if !ok {
		return err
	}
	return malformed(l.s, paging.Position{}, &UnsettledError{
		Stream: l.s.Name, Fact: FactPager, Seen: e.Seen, Tried: e.Tried,
		YAML: fmt.Sprintf("streams:\n  %s:\n    pagination: {type: page, page: PARAMETER, size: PARAMETER, limit: 100} # or {type: none} if the list has one page\n", l.s.Name),
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
