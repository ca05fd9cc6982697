package cursor

import (
	"strings"

	"github.com/penstock-data/penstock/state"
)

// Check returns an error if a run cannot continue at c, a stream's cursor as a destination stores it.
func Check(c state.Cursor) error {
	_, err := Decode(c)
	return err
}

// IsInternal reports whether a cursor with this stream name belongs to penstock's own data, such as the runs, and not
// to a stream.
func IsInternal(stream string) bool { return strings.HasPrefix(stream, "_") }

// Moved returns a stream's cursor for a source that has moved to another address.
func Moved(c state.Cursor, address string) (state.Cursor, error) {
	p, err := Decode(c)
	if err != nil || c == "" {
		return c, err
	}
	p.Address = address
	return p.Encode(), nil
}

// AddressOf returns the address of the source in a cursor; "" if there is none.
func AddressOf(stored string) string {
	p, err := Decode(state.Cursor(stored))
	if err != nil {
		return ""
	}
	return p.Address
}
