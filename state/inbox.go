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

// Event is one webhook delivery as received.
type Event struct {
	Ordinal  int64             // position in the inbox, from 1 upwards; Append sets it, and never uses a value twice
	Source   string            // name of the source in the configuration
	ID       string            // id that the platform gave the event; "" if there is none
	Type     string            // dotted type, as in invoice.created; "" if there is none
	Received time.Time         // when this machine received it; only for display, because ordinals give the order
	Scheme   string            // label of the signature scheme that has verified the event; "" for a capture, which is not verified
	Header   map[string]string // the relevant header fields
	Body     []byte            // the body as it was received, to which the signature applies
	From     string            // sender of a capture; unused for events
	Likely   bool              // the capture has the header that should contain the signature; unused for events
	Conflict bool              // another delivery has the same id and a different body, so the values must not be used
}

// Appended is the result of [InboxFile.Append].
type Appended string

const (
	// Stored means that the delivery is new, and was added.
	Stored Appended = "stored"
	// Duplicate means that a delivery with the same id and body exists. Nothing was added.
	Duplicate Appended = "duplicate"
	// Conflicting means that an earlier delivery with the same id has a different body. Both are stored. The values of
	// both bodies are uncertain, and must not be applied: see [Event.Conflict].
	Conflicting Appended = "conflict"
)

var (
	// ErrInboxFull is returned if the quota is used up or the disk is full. Nothing was stored. A later attempt
	// succeeds after applied events were trimmed or disk space was freed.
	ErrInboxFull = errors.New("inbox is full")
	// ErrInboxClosed is returned after the inbox was closed. Nothing was stored.
	ErrInboxClosed = errors.New("inbox is closed")
	// ErrNoEvent is returned if no event with the requested ordinal is stored.
	ErrNoEvent = errors.New("no such event is stored")
)

// InboxOptions limits an inbox. The zero value is valid.
type InboxOptions struct {
	Quota int64         // bytes of stored events, including dead letters; 0 means 1 GiB
	Wait  time.Duration // how long to wait for another process that holds the inbox
}

// defaultQuota has room for more than a million events of typical size.
const defaultQuota = 1 << 30

// InboxFile stores webhook deliveries from their acknowledgement until all destinations have applied them. It is an
// SQLite file in the state folder. Only one process at a time can write to it. The events of all sources share one
// sequence of ordinals.
//
// The first change after opening reads at most about ten thousand rows, however many events are stored. An InboxFile is
// safe for concurrent use.
type InboxFile struct {
	file     *sqliteFile
	compiled map[string]*sql.Stmt
	quota    int64
	room     func(context.Context, []*Delivery) error

	groups *Groups
	close  func() error

	mu      sync.Mutex
	account *account // counters and recent ids of the file; nil: they must be read again
}

func inboxPath(dir string) string { return filepath.Join(dir, "inbox.db") }

// OpenInbox opens the inbox of the state folder dir for writing, and creates it if it is missing. It returns
// [ErrLocked], wrapped, while another process holds the inbox. The caller closes the inbox after the last Append.
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

// ReadInbox opens the inbox of the state folder dir for reading. Another process may be writing it. ReadInbox returns
// [fs.ErrNotExist], wrapped, if there is no inbox. Methods that change the inbox return errors.
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

// Quota returns the limit in bytes for the stored events of all sources together. It is 0 for an inbox that was
// opened for reading.
func (b *InboxFile) Quota() int64 { return b.quota }

// Close waits until pending deliveries are written, and closes the inbox. It may be called twice.
func (b *InboxFile) Close() error { return b.close() }

// Append stores a delivery. When it returns without an error, the delivery is durable and may be acknowledged. If the
// delivery repeats an earlier one, Append stores nothing, because the earlier delivery is already
// durable. // Invariant 3
//
// Deliveries that arrive at the same time are written and synced together. Append recognizes a repetition by its source
// and id. It remembers ids for at least 90 days, even if the first delivery was trimmed. A delivery without an id is
// always new. If ctx is canceled, the delivery may or may not have been stored.
func (b *InboxFile) Append(ctx context.Context, e Event) (Appended, error) {
	return b.groups.Append(ctx, e)
}
