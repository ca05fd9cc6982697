package pipeline

import (
	"errors"

	"github.com/penstock-data/penstock/extract/wire"
)

// Permanent reports whether later attempts will also end with err until a person changes something. That is so if the
// source refused the request or the credential, has no such path, or returned no data. It is also so if penstock
// refused to send the request.
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
