package pipeline

import (
	"errors"

	"github.com/penstock-data/penstock/extract/wire"
)

// Final reports whether another attempt a while later would meet err again: the source refused the request or
// the credential, or the request must not be sent. Only a person can change that.
func Final(err error) bool {
	if n, ok := errors.AsType[*notTriedError](err); ok {
		err = n.err // treated like the errors of streams that were tried
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
