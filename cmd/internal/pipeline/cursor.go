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

// Moved returns a stream's cursor for a source that has moved to another address.
func Moved(c state.Cursor, address string) (state.Cursor, error) {
	p, err := decodePosition(c)
	if err != nil || c == "" {
		return c, err
	}
	p.address = address
	return p.encode(), nil
}

// AddressOf returns the address of the source in a cursor; "" if there is none.
func AddressOf(cursor string) string {
	p, err := decodePosition(state.Cursor(cursor))
	if err != nil {
		return ""
	}
	return p.address
}
