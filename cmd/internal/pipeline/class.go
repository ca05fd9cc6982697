package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/transform"
)

// classify says how a stream ended that met err, and for a parked one when it
// is worth another try.
func classify(ctx context.Context, err error) (Status, time.Time) {
	refused, asked := errors.AsType[*wire.Error](err)
	switch {
	case err == nil:
		return StatusComplete, time.Time{}
	case stopped(ctx, err):
		return StatusStopped, time.Time{}
	case advice(err) != "":
		return StatusHeld, time.Time{}
	case errors.Is(err, state.ErrLocked):
		return StatusParked, time.Time{}
	case unranged(err):
		return StatusUnavailable, time.Time{}
	case !asked:
		return StatusFailed, time.Time{}
	}
	switch refused.Class {
	case wire.Throttled:
		return StatusParked, refused.NotBefore
	case wire.NotEntitled, wire.Missing, wire.Auth, wire.Invalid, wire.NotData:
		return StatusUnavailable, time.Time{}
	default:
		return StatusFailed, time.Time{}
	}
}

// advice is the next step of a person whose tables are not what they were, or
// not to become what the source asks for; "" where err is about neither.
// Invariant 16
func advice(err error) string {
	if e, ok := errors.AsType[*load.ForeignChange](err); ok {
		return fmt.Sprintf("undo that, or go on with the table as it is: penstock schema accept %s", e.Table)
	}
	if e, ok := errors.AsType[*load.OwnerError](err); ok && e.Moved() {
		return fmt.Sprintf("if it is the same workspace, say so: penstock state adopt --stream %s; to read it anew: penstock state reset --stream %[1]s", e.Want.Stream)
	}
	if _, ok := errors.AsType[*transform.ContractError](err); ok {
		return "let the contract under schema in the configuration allow it, or leave the columns out"
	}
	if e, ok := errors.AsType[*ChangedError](err); ok {
		return fmt.Sprintf("see penstock explain %s, and say under streams in the configuration what holds", e.Stream)
	}
	return ""
}

// stopped reports whether err is what the end of ctx made of an operation.
func stopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil &&
		(errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err()) || errors.Is(err, context.Canceled) || errors.Is(err, errGrace))
}

// misplaced reports whether err may be due to the place from which a pass was
// resumed: the source answered, and it is not about who asks or how often.
func misplaced(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && (e.Class == wire.Malformed || e.Class == wire.NotData || e.Class == wire.Invalid || e.Class == wire.Missing) ||
		errors.Is(err, extract.ErrCursor)
}

// refusals is how many streams a surface must have turned away, or not
// answered, before the others are not tried any more.
const refusals = 3

// surfaceGate keeps a run from asking a surface for 150 streams with a key that it
// does not know, or that cannot be reached at all.
type surfaceGate struct {
	surface schemas.Surface
	need    int // refusals that close it

	mu      sync.Mutex
	open    bool // it has answered once: whatever comes, it is not the credential
	refused int
	err     error // of the first refusal

	found   bool            // some path exists: whatever is missing, it is not the base URL
	missing map[string]bool // streams whose path, or whose parent's, does not exist
	paths   map[string]bool // those paths
	missed  error           // of the first of them
}

// newGates makes a gate for each surface that streams are read from. Streams in apart
// go to an origin or use a credential of their own, which says nothing about the surface.
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

// closed is the reason why nothing more can be had from the surface; nil while
// it may be tried.
func (g *surfaceGate) closed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open || g.need == 0 || g.refused < g.need {
		return nil
	}
	return fmt.Errorf("surface %s: %w", g.surface, g.err)
}

// gateOf is the gate of the surface that a stream is read from; nil where that is an
// origin of its own.
func (r *run) gateOf(s schemas.Stream) *surfaceGate {
	if r.Apart[s.Name] {
		return nil
	}
	return r.gates[s.Surface]
}

// pass lets a stream through, unless the gate is closed.
func (g *surfaceGate) pass(s schemas.Stream) error {
	if g == nil || s.Auth != schemas.AuthBearer {
		return nil
	}
	if err := g.closed(); err != nil {
		return &notTriedError{stream: s.Name, err: err}
	}
	return nil
}

// answered takes note of a page.
func (g *surfaceGate) answered(s schemas.Stream) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.found = true
	g.open = g.open || s.Auth == schemas.AuthBearer
}

// saw takes note of how a stream fared.
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

// notTriedError is the error of a stream that no request was made for. It does
// not unwrap: the refusal was another stream's.
type notTriedError struct {
	stream string
	err    error
}

// Error names the stream and the reason.
func (e *notTriedError) Error() string { return e.stream + ": not tried: " + e.err.Error() }

// refused is the run's own error where a surface turned away or did not answer
// whatever it was asked for, or has none of the paths. // Invariant 14
func (r *run) refused() error {
	var errs []error
	for _, surface := range slices.Sorted(maps.Keys(r.gates)) {
		g := r.gates[surface]
		err := g.closed()
		if err == nil {
			err = g.misplaced()
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
