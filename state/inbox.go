package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// Event is one webhook delivery as it was received.
type Event struct {
	Ordinal  int64             // its place in the inbox, from 1 upwards, never reused; given by Append
	Source   string            // which source of the configuration it came for
	ID       string            // the event's own id; "" where the delivery has none
	Type     string            // its dotted type, "" where there is none
	Received time.Time         // by the clock of this machine, to the microsecond: for people, never for order
	Scheme   string            // the label of what verified it; "" for a capture, which nothing has verified
	Header   map[string]string // those of its header fields that matter
	Body     []byte            // raw, as signed
	From     string            // of a capture: whom it came from, as far as bounds tell senders apart
	Likely   bool              // of a capture: it has the header that signatures are expected in
	Conflict bool              // another delivery had the same id and another body: a hint, never data
}

// Appended is what became of a delivery.
type Appended string

const (
	// Stored is a delivery that is new.
	Stored Appended = "stored"
	// Duplicate is one that was there already: same id, same body. Nothing was added.
	Duplicate Appended = "duplicate"
	// Conflicting is one whose id was there with another body. Both are kept, and
	// neither is to be applied as data: see [Event.Conflict].
	Conflicting Appended = "conflict"
)

var (
	// ErrInboxFull is returned while the quota or the disk has no room. Nothing was
	// kept; there is room again once events were applied, or the disk has space.
	ErrInboxFull = errors.New("inbox is full")
	// ErrInboxClosed is returned once the inbox was closed. Nothing was kept.
	ErrInboxClosed = errors.New("inbox is closed")
	// ErrNoEvent is returned where an ordinal names no event that is kept.
	ErrNoEvent = errors.New("no such event is kept")
)

// InboxOptions are the bounds of an inbox. The zero value is fine.
type InboxOptions struct {
	Quota int64         // bytes of events kept, dead letters among them; 0 is 1 GiB
	Wait  time.Duration // how long to wait for another process that has the inbox
}

// defaultQuota is more than a million events of usual size.
const defaultQuota = 1 << 30

// InboxFile keeps webhook deliveries from the moment they are acknowledged until
// every destination has their effect. It is an SQLite file of the state folder
// which one process at a time may write. Events of all sources stand in one
// order, that of their ordinals.
//
// Opening reads a few thousand rows at most, however much is kept. An InboxFile is
// safe for concurrent use.
type InboxFile struct {
	file     *sqliteFile
	compiled map[string]*sql.Stmt
	quota    int64
	room     func(context.Context, []*Delivery) error // roomFor

	groups *Groups
	close  func() error

	mu      sync.Mutex // held by whoever changes the file
	account *account   // what the file says; nil where that has to be read again
}

// inboxPath is where the inbox of a state folder is.
func inboxPath(dir string) string { return filepath.Join(dir, "inbox.db") }

// OpenInbox opens the inbox of the state folder dir for writing, and makes it
// where there is none. It returns [ErrLocked], wrapped, while another process
// has it. Close it when nobody appends any more.
func OpenInbox(ctx context.Context, dir string, o InboxOptions) (*InboxFile, error) {
	f, err := openSQLite(ctx, inboxPath(dir), o.Wait, inboxSchema)
	if err != nil {
		return nil, err
	}
	b := &InboxFile{file: f, quota: o.Quota}
	if b.quota == 0 {
		b.quota = defaultQuota
	}
	b.room = b.roomFor
	b.close = sync.OnceValue(func() error {
		b.groups.Close()
		return f.Close()
	})
	if b.compiled, err = compile(ctx, f.write); err != nil {
		return nil, errors.Join(fmt.Errorf("open inbox: %w", err), f.Close())
	}
	b.groups = NewGroups(1, b.commit)
	return b, nil
}

// ReadInbox opens the inbox of the state folder dir for reading while another
// process may be writing it. It returns [fs.ErrNotExist], wrapped, where there
// is none. What would change the inbox fails.
func ReadInbox(ctx context.Context, dir string) (*InboxFile, error) {
	f, err := readSQLite(ctx, inboxPath(dir), inboxSchema)
	if err != nil {
		return nil, err
	}
	b := &InboxFile{file: f, groups: NewGroups(0, nil)}
	b.close = sync.OnceValue(f.Close)
	b.groups.Close()
	return b, nil
}

// Quota is how many bytes of events are kept at most, of all sources together; 0
// for an inbox that was opened for reading.
func (b *InboxFile) Quota() int64 { return b.quota }

// Close waits for the deliveries that are being written, and gives the inbox up.
// Doing so twice is fine.
func (b *InboxFile) Close() error { return b.close() }

// Append keeps a delivery. When it returns without an error, the delivery, or
// the one it repeats, survives a power cut: it may be acknowledged. // Invariant 3
//
// Deliveries that come at the same time are written and synced together. A
// repetition is known by its source and id for 90 days at least, whether its
// body was trimmed or not; a delivery without an id is always new. With a
// cancelled ctx the delivery may have been kept or not.
func (b *InboxFile) Append(ctx context.Context, e Event) (Appended, error) {
	return b.groups.Append(ctx, e)
}
