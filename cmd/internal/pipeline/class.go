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

func classify(ctx context.Context, err error) (Status, time.Time) {
	refused, isWire := errors.AsType[*wire.Error](err)
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
	case !isWire:
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

// advice returns the user's next step for an error that only a person can resolve, else "". // Invariant 16
func advice(err error) string {
	if e, ok := errors.AsType[*load.ForeignChange](err); ok {
		return fmt.Sprintf("undo that, or accept the table as it is: penstock schema accept %s", e.Table)
	}
	if e, ok := errors.AsType[*load.OwnerError](err); ok && e.Moved() {
		return fmt.Sprintf("if it is the same workspace: penstock state adopt --stream %s; to read it again from the beginning: penstock state reset --stream %[1]s", e.Want.Stream)
	}
	if _, ok := errors.AsType[*transform.ContractError](err); ok {
		return "allow it in the contract under schema in the configuration, or leave the columns out"
	}
	if e, ok := errors.AsType[*ChangedError](err); ok {
		return fmt.Sprintf("run penstock explain %s, and state under streams in the configuration what is right", e.Stream)
	}
	return ""
}

func stopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil &&
		(errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err()) || errors.Is(err, context.Canceled) || errors.Is(err, errGrace))
}

// misplaced reports whether a pass may have failed because of the position at which it was resumed. An error about
// credentials, the rate limit or the connection has other causes.
func misplaced(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && (e.Class == wire.Malformed || e.Class == wire.NotData || e.Class == wire.Invalid || e.Class == wire.Missing) ||
		errors.Is(err, extract.ErrCursor)
}

const refusals = 3

// surfaceGate keeps a run from requesting every stream of a surface that refuses the credential or cannot be reached.
type surfaceGate struct {
	surface schemas.Surface
	need    int // after so many refusals, the surface is not requested any more

	mu      sync.Mutex
	open    bool // the surface has answered, so later errors are not due to the credential
	refused int
	err     error

	found   bool
	missing map[string]bool // streams whose path, or whose parent's path, does not exist
	paths   map[string]bool
	missed  error
}

// newGates returns one gate for each surface. Streams in apart have no gate, because they use an origin or a
// credential of their own.
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

func (r *run) gateOf(s schemas.Stream) *surfaceGate {
	if r.OwnOrigin[s.Name] {
		return nil
	}
	return r.gates[s.Surface]
}

func (g *surfaceGate) pass(s schemas.Stream) error {
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

// notTriedError is the error of a stream for which no request was made. It has no Unwrap method, because the refusal
// concerned another stream.
type notTriedError struct {
	stream string
	err    error
}

// Error names the stream and the reason.
func (e *notTriedError) Error() string { return e.stream + ": not tried: " + e.err.Error() }

// refused returns one error for each surface that refused the credential, or that answered 404 for every stream.
// Invariant 14
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
