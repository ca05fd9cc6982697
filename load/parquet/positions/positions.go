// Package positions keeps the positions of rows that a file still has, but that its table no longer has.
package positions

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// List has the positions of deleted rows in a file, ascending. The first row of the file has the position 0. The other
// rows of the file are the live rows. The index of a live row counts only live rows. A List never changes.
type List []uint32

// With returns the list with further deleted rows. The argument has the indexes of these rows among the live rows,
// ascending.
func (l List) With(live []uint32) List {
	out := make(List, 0, len(l)+len(live))
	before := 0 // number of positions in l before the row
	for _, row := range live {
		for before < len(l) && l[before] <= row+uint32(before) {
			out = append(out, l[before])
			before++
		}
		out = append(out, row+uint32(before))
	}
	return append(out, l[before:]...)
}

// MarshalText implements [encoding.TextMarshaler]. The text has the differences between positions as variable-length
// integers, in base64.
func (l List) MarshalText() ([]byte, error) {
	var b []byte
	last := uint32(0)
	for _, p := range l {
		b = binary.AppendUvarint(b, uint64(p-last))
		last = p
	}
	return base64.RawStdEncoding.AppendEncode(nil, b), nil
}

var errText = errors.New("not a list of positions")

// UnmarshalText implements [encoding.TextUnmarshaler].
func (l *List) UnmarshalText(text []byte) error {
	b, err := base64.RawStdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("%w: %w", errText, err)
	}
	*l = nil
	last := uint64(0)
	for len(b) > 0 {
		d, n := binary.Uvarint(b)
		if n <= 0 || last+d > 1<<32-1 || len(*l) > 0 && d == 0 {
			return errText
		}
		last += d
		*l = append(*l, uint32(last))
		b = b[n:]
	}
	return nil
}

// Live returns the indexes of the live rows among the rows from position first to position first+rows-1, as an array of
// indexes that begin with 0 at the position first. It returns nil if all of these rows are live. It also returns the
// rest of the list. The list must not have positions before first. The caller releases the array.
func (l List) Live(first int64, rows int) (live arrow.Array, rest List) {
	n := 0
	for n < len(l) && int64(l[n]) < first+int64(rows) {
		n++
	}
	if n == 0 {
		return nil, l
	}
	b := array.NewInt32Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(rows - n)
	gone := l[:n]
	for i := range rows {
		if len(gone) > 0 && int64(gone[0]) == first+int64(i) {
			gone = gone[1:]
			continue
		}
		b.UnsafeAppend(int32(i))
	}
	return b.NewArray(), l[n:]
}
