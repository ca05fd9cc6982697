// Package state defines how a sync records its progress. A stream has a [Cursor], which is stored under a [Key].
// [ErrMoved] reports a conflict of two writers. The destination stores the cursor together with the rows.
//
// The package also stores the webhook inbox, the journal, the units of runs, and secrets. But only the cursor decides
// where a stream continues.
package state

import "errors"

// Cursor is a position in a stream. It is opaque: only the source that made it can interpret it. It is stored and
// compared byte by byte. The empty cursor means the beginning of the stream.
type Cursor string

// Key identifies the cursor of one stream in one pipeline. If several sources share the tables of a destination, each
// source has its own cursor.
type Key struct {
	Pipeline string
	Source   string // "" if the tables belong to one source
	Stream   string
}

// ErrMoved is returned by a destination if another process has committed, so that the stored cursor has changed since
// the transaction began. The destination rolls back the whole transaction. [Notes] return ErrMoved if a note has
// changed.
var ErrMoved = errors.New("cursor moved")

// ErrLocked is returned if another process holds a resource, for example a database file or the lock of a pipeline.
// Nothing was changed. The caller may try again later.
var ErrLocked = errors.New("locked by another process")
