package pipeline

import (
	"strings"

	"github.com/penstock-data/penstock/state"
)

// CheckCursor says what keeps a run from going on at c, a stream's cursor as a
// destination stores it; nil for one that a run could have stored.
func CheckCursor(c state.Cursor) error {
	_, err := decodePosition(c)
	return err
}

// OwnCursor reports whether a cursor is not one of a stream's, but of what
// penstock keeps beside them: of the runs themselves, say.
func OwnCursor(stream string) bool { return strings.HasPrefix(stream, "_") }
