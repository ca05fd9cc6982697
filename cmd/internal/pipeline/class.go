package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load"
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
		return "allow it in the contract under `schema` in the configuration, or leave the columns out"
	}
	if _, ok := errors.AsType[*load.CheckError](err); ok {
		return "correct the records in the source and run again; to load them as they are, set `on_fail: warn` for the check in the configuration"
	}
	if e, ok := errors.AsType[*ChangedError](err); ok {
		return fmt.Sprintf("run penstock explain %s, and set what is right under `streams` in the configuration", e.Stream)
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

// Permanent reports whether later attempts will end with the same error until a person changes something. It returns
// true if the source refused the request or the credential, has no such path, or returned no data. It also returns true
// if penstock refused to send the request.
func Permanent(err error) bool {
	if n, ok := errors.AsType[*notTriedError](err); ok {
		err = n.err
	}
	e, ok := errors.AsType[*wire.Error](err)
	if !ok {
		return false
	}
	switch e.Class {
	case wire.Auth, wire.NotEntitled, wire.Missing, wire.Invalid, wire.Refused, wire.NotData:
		return true
	}
	return false
}

func unranged(err error) bool {
	_, ok := errors.AsType[*RangeError](err)
	return ok
}
