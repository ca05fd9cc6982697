package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

const refusals = 3

// surfaceGate makes a run give up a surface that refuses the credential or cannot be reached. Without the gate, the run
// would request each of the surface's streams, and each request would fail.
type surfaceGate struct {
	surface schemas.Surface
	need    int // after this many refusals, the run stops requesting the surface

	mu      sync.Mutex
	open    bool // the surface has answered, so later errors are not due to the credential
	refused int
	err     error

	found   bool
	missing map[string]bool // streams whose path, or whose parent's path, does not exist
	paths   map[string]bool
	missed  error
}

// newGates returns one gate for each surface. The parameter `apart` contains the streams without a gate, which use an
// origin or a credential of their own.
func newGates(streams []schemas.Stream, apart map[string]bool) map[schemas.Surface]*surfaceGate {
	gates := map[schemas.Surface]*surfaceGate{}
	for _, s := range streams {
		if apart[s.Name] {
			continue
		}
		g := gates[s.Surface]
		if g == nil {
			g = &surfaceGate{surface: s.Surface}
			gates[s.Surface] = g
		}
		if s.Auth == schemas.AuthBearer {
			g.need = min(g.need+1, refusals)
		}
	}
	return gates
}

func (g *surfaceGate) closed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open || g.need == 0 || g.refused < g.need {
		return nil
	}
	return fmt.Errorf("surface %s: %w", g.surface, g.err)
}

func (g *surfaceGate) admit(s schemas.Stream) error {
	if g == nil || s.Auth != schemas.AuthBearer {
		return nil
	}
	if err := g.closed(); err != nil {
		return &notTriedError{stream: s.Name, err: err}
	}
	return nil
}

func (g *surfaceGate) answered(s schemas.Stream) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.found = true
	g.open = g.open || s.Auth == schemas.AuthBearer
}

func (g *surfaceGate) saw(s schemas.Stream, err error) {
	e, ok := errors.AsType[*wire.Error](err)
	if !ok || g == nil {
		return
	}
	g.sawPath(s, e)
	if s.Auth != schemas.AuthBearer {
		return
	}
	unreachable := e.Class == wire.Transient && e.Status == 0
	if e.Class != wire.Auth && !unreachable {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused++
	if g.err == nil {
		g.err = err
	}
}

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

// leastMissing is the least number of missing paths for which the base URL is reported as wrong. A single missing path
// concerns only its stream and its child streams.
const leastMissing = 2

const statusNotFound = 404
