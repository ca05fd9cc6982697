package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/penstock-data/penstock/state"
)

// inbox keeps webhook deliveries in the database. Any number of processes have it
// at once: whoever gives ordinals holds the row of the inbox until its commit, so
// that events appear in the order of their ordinals.
type inbox struct {
	s     *Store
	quota int64
	read  bool // it was opened for reading

	queue   chan *delivery // unbuffered: who could send is sure of an answer
	closing chan struct{}
	close   func() error
	writer  sync.WaitGroup
}

var _ state.Inbox = (*inbox)(nil)

// defaultQuota is that of the state folder.
const defaultQuota = 1 << 30

// OpenInbox implements [state.Store].
func (s *Store) OpenInbox(ctx context.Context, o state.InboxOptions) (state.Inbox, error) {
	b, err := s.openInbox(ctx, o)
	if err != nil {
		return nil, err
	}
	for range writers {
		b.writer.Go(b.write)
	}
	return b, nil
}

// writers is how many groups of one process are under way: while one is being
// synced the next is being written.
const writers = 2

func (s *Store) openInbox(ctx context.Context, o state.InboxOptions) (*inbox, error) {
	if err := s.look(ctx, ping(ctx)); err != nil {
		return nil, fmt.Errorf("open inbox: %w", err)
	}
	b := &inbox{s: s, quota: o.Quota, queue: make(chan *delivery), closing: make(chan struct{})}
	if b.quota == 0 {
		b.quota = defaultQuota
	}
	b.close = sync.OnceValue(func() error {
		close(b.closing)
		b.writer.Wait()
		return nil
	})
	return b, nil
}

// ReadInbox implements [state.Store]. There always is an inbox.
func (s *Store) ReadInbox(ctx context.Context) (state.Inbox, error) {
	b, err := s.openInbox(ctx, state.InboxOptions{})
	if err != nil {
		return nil, err
	}
	b.read, b.quota = true, 0
	return b, b.Close()
}

// Quota implements [state.EventKeeper].
func (b *inbox) Quota() int64 { return b.quota }

// Close implements [state.Inbox].
func (b *inbox) Close() error { return b.close() }

// delivery is an event on its way into the database.
type delivery struct {
	event  state.Event
	key    [16]byte // zero for an event without an id
	digest [16]byte
	header []byte
	size   int64

	done chan struct{} // closed once the rest is known
	was  state.Appended
	err  error
}

// eventOverhead is what the quota counts for a row beside its texts.
const eventOverhead = 128

func newDelivery(e state.Event) (*delivery, error) {
	header, err := json.Marshal(e.Header)
	if err != nil {
		return nil, fmt.Errorf("encode header: %w", err)
	}
	sum := sha256.Sum256(e.Body)
	d := &delivery{event: e, digest: [16]byte(sum[:16]), header: header, done: make(chan struct{})}
	if e.ID != "" {
		text := binary.AppendUvarint(nil, uint64(len(e.Source)))
		sum := sha256.Sum256(append(append(text, e.Source...), e.ID...))
		d.key = [16]byte(sum[:16])
	}
	d.size = int64(len(e.ID) + len(e.Type) + len(e.Scheme) + len(header) + len(e.Body) + eventOverhead)
	return d, nil
}

// Append implements [state.Intake]: see [state.InboxFile.Append]. // Invariant 3
func (b *inbox) Append(ctx context.Context, e state.Event) (state.Appended, error) {
	d, err := newDelivery(e)
	if err != nil {
		return "", fmt.Errorf("append to inbox: %w", err)
	}
	select {
	case <-b.closing:
		return "", fmt.Errorf("append to inbox: %w", state.ErrInboxClosed)
	default:
	}
	select {
	case b.queue <- d:
	case <-b.closing:
		return "", fmt.Errorf("append to inbox: %w", state.ErrInboxClosed)
	case <-ctx.Done():
		return "", fmt.Errorf("append to inbox: %w", ctx.Err())
	}
	select {
	case <-d.done:
	case <-ctx.Done():
		return "", fmt.Errorf("append to inbox: %w", ctx.Err())
	}
	if d.err != nil {
		return "", fmt.Errorf("append to inbox: %w", d.err)
	}
	return d.was, nil
}

// A group is what is written and synced at once.
const (
	groupEvents = 512
	groupBytes  = 8 << 20
)

// write writes groups until the inbox is closed.
func (b *inbox) write() {
	for {
		select {
		case d := <-b.queue:
			group := b.gather(d)
			b.commit(group)
			for _, d := range group {
				close(d.done)
			}
		case <-b.closing:
			return
		}
	}
}

// gather returns first and whatever else waits.
func (b *inbox) gather(first *delivery) []*delivery {
	group, size := []*delivery{first}, first.size
	for len(group) < groupEvents && size < groupBytes {
		select {
		case d := <-b.queue:
			group, size = append(group, d), size+d.size
		default:
			return group
		}
	}
	return group
}

// today counts days since 1970, by the database's clock: one host whose clock is
// wrong must not have the others forget what was delivered.
const today = "floor(extract(epoch FROM now()) / 86400)::integer"
