package extract

import (
	"strings"

	"github.com/penstock-data/penstock/extract/wire"
)

// classOf sorts a failure that comes under a good status by its words, which
// are all there is; [wire.Invalid] where they say none of it.
func classOf(message string) wire.Class {
	m := strings.ToLower(message)
	switch {
	case strings.Contains(m, "too many requests"), strings.Contains(m, "too many attempts"):
		return wire.Throttled
	case strings.Contains(m, "unauthenticated"), strings.Contains(m, "token"):
		return wire.Auth
	}
	if class := wire.MessageClass(message); class != 0 {
		return class
	}
	return wire.Invalid
}

// noRoute reports whether a "not found" is about the endpoint, not a record: it
// would be so for every other record as well.
func noRoute(message string) bool {
	m := strings.ToLower(message)
	return strings.Contains(m, "the route ") || strings.Contains(m, "not supported for route")
}
