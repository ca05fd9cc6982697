// Package state holds the words in which a sync says how far it has come: the
// [Cursor] of a stream, the [Key] it is stored under, and [ErrMoved] for the
// moment two writers meet. The cursor itself lives in the destination, beside
// the rows it covers; nothing here is an authority on progress.
package state

import "errors"

// Cursor is a position in a stream. It is opaque: only the source that made it
// can read it, and it is stored and compared byte by byte. The empty cursor is
// the beginning.
type Cursor string

// Key names the cursor of one stream in one pipeline, and of one source where
// several share the tables of a destination.
type Key struct {
	Pipeline string
	Source   string // "" where the tables are those of one source
	Stream   string
}

// ErrMoved is returned by a destination when the stored cursor is no longer the
// one a transaction began from: another process has committed in between, and
// nothing of this transaction was kept.
var ErrMoved = errors.New("cursor moved")

// ErrLocked is returned when another process holds what this one needs: a
// database file, or the lock of a pipeline. Nothing was changed; trying again
// later is safe.
var ErrLocked = errors.New("locked by another process")
