package pipeline

import (
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

const statusNotFound = 404

// BaseError is the error of a run in which the server answered 404 for every stream of a surface. Then the base URL
// is probably wrong, not the paths of the streams.
type BaseError struct {
	Surface schemas.Surface
	Streams []string // names of the missing streams
	Err     error    // the server's answer for the first of them
}

// Error says how many streams the server did not find, and its answer to the first.
func (e *BaseError) Error() string {
	return fmt.Sprintf("surface %s: all %d streams are missing: %v", e.Surface, len(e.Streams), e.Err)
}

// Unwrap returns the answer to the first stream.
func (e *BaseError) Unwrap() error { return e.Err }

// leastMissing is the number of missing paths from which the base URL is suspected. A single missing path concerns
// only its stream and its child streams.
const leastMissing = 2

func (g *surfaceGate) sawPath(s schemas.Stream, e *wire.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case e.Class != wire.Missing || e.Status != statusNotFound:
		g.found = true
	default:
		if g.missing == nil {
			g.missing, g.paths, g.missed = map[string]bool{}, map[string]bool{}, e
		}
		g.missing[s.Name], g.paths[e.Path] = true, true
	}
}

func (g *surfaceGate) misplaced() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.found || len(g.paths) < leastMissing {
		return nil
	}
	return &BaseError{Surface: g.surface, Streams: slices.Sorted(maps.Keys(g.missing)), Err: g.missed}
}

// BaseErrors returns the errors about wrong base URLs, one per surface.
func (r Report) BaseErrors() []*BaseError { return baseErrors(r.Err) }

func baseErrors(err error) []*BaseError {
	switch e := err.(type) { //nolint:errorlint // this walks the tree of errors
	case *BaseError:
		return []*BaseError{e}
	case interface{ Unwrap() error }:
		return baseErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all []*BaseError
		for _, one := range e.Unwrap() {
			all = append(all, baseErrors(one)...)
		}
		return all
	}
	return nil
}
