// Package state defines how a sync records its progress: the [Cursor] of a stream, the [Key] it is stored under, and
// [ErrMoved] for a conflict of two writers. The cursor itself is stored in the destination, with the rows that it
// covers. Nothing that this package stores is authoritative for progress.
package state

import "errors"

// Cursor is a position in a stream. It is opaque: only the source that made it can interpret it, and it is stored and
// compared byte by byte. The empty cursor is the beginning.
type Cursor string

// Key identifies the cursor of one stream in one pipeline and, if several sources share the tables of a destination,
// of one source.
type Key struct {
	Pipeline string
	Source   string // "" if the tables belong to one source
	Stream   string
}

// ErrMoved is returned by a destination if the stored cursor is no longer the one that a transaction began from, because
// another process has committed in between. Nothing of the transaction was kept. [Notes] return it if a note has changed.
var ErrMoved = errors.New("cursor moved")

// ErrLocked is returned if another process holds what this one needs, for example a database file or the lock of a
// pipeline. Nothing was changed, and a later retry is safe.
var ErrLocked = errors.New("locked by another process")
