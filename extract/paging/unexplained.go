package paging

import (
	"strings"

	"github.com/penstock-data/penstock/extract/wire"
)

func (p *Probe) noteTried(what, result string) {
	p.Tried = append(p.Tried, what+": "+wire.Excerpt(result))
}

// Unexplained returns the error of a list that may be longer than what the probes can read. // Invariant 14
func (p *Probe) Unexplained(what string) error {
	return &UnexplainedError{Seen: what, Tried: p.Tried}
}

// UnexplainedError says that the list may be longer than what the probes can read.
type UnexplainedError struct {
	Seen  string   // what the probes saw
	Tried []string // rejected candidates, each with the reason
}

// Error returns what the probes saw and tried.
func (e *UnexplainedError) Error() string {
	return strings.Join(append([]string{e.Seen}, e.Tried...), ", ")
}
