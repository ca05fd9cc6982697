package pipeline

import (
	"strings"

	"github.com/penstock-data/penstock/state"
)

// CheckCursor returns an error if a run cannot continue at c, a stream's cursor as a destination stores it.
func CheckCursor(c state.Cursor) error {
	_, err := decodePosition(c)
	return err
}

// OwnCursor reports whether a cursor with this stream name belongs to penstock's own data, such as the runs, instead
// of a stream.
func OwnCursor(stream string) bool { return strings.HasPrefix(stream, "_") }
