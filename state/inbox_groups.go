package state

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

// Limits of a group. A group consists of the deliveries that arrived while the previous group was written. Its
// deliveries are written and synced together.
const (
	groupEvents = 512
	groupBytes  = 8 << 20
)

const eventOverhead = 128

// Delivery is an event that is being appended to an inbox.
type Delivery struct {
	Event  Event
	Key    [16]byte // hash of the source's name and the event's id; zero for an event without an id
	Digest [16]byte // hash of the body
	Header []byte   // header fields as JSON
	Size   int64    // bytes that count against the quota

	// The function that writes the group sets these fields.
	Previous Appended
	Err      error

	done chan struct{} // closed when the outcome is known
}

// NewDelivery returns an event with its key and digest.
func NewDelivery(e Event) (*Delivery, error) {
	header, err := json.Marshal(e.Header)
	if err != nil {
		return nil, fmt.Errorf("encode header: %w", err)
	}
	d := &Delivery{Event: e, Digest: digestOf(e.Body), Header: header, done: make(chan struct{})}
	if e.ID != "" {
		d.Key = identityOf(e.Source, e.ID)
	}
	d.Size = int64(len(e.ID) + len(e.Type) + len(e.Scheme) + len(header) + len(e.Body) + eventOverhead)
	return d, nil
}

// Groups implements the group commit of an inbox, independent of its storage. Deliveries that arrive at the same time
// are written and synced together. Groups is safe for concurrent use.
type Groups struct {
	queue   chan *Delivery // unbuffered, so a delivery that was sent has reached a writer
	closing chan struct{}
	once    sync.Once
	writers sync.WaitGroup
}

// NewGroups returns Groups with the given number of writers. Each writer calls commit with one group at a time. When
// commit returns, the group is durable, or each of its deliveries has an error. // Invariant 3
func NewGroups(writers int, commit func([]*Delivery)) *Groups {
	g := &Groups{queue: make(chan *Delivery), closing: make(chan struct{})}
	for range writers {
		g.writers.Go(func() { g.write(commit) })
	}
	return g
}

// Append adds an event to a group and waits until the group is written: see [InboxFile.Append]. After Close it
// returns [ErrInboxClosed], wrapped.
func (g *Groups) Append(ctx context.Context, e Event) (Appended, error) {
	d, err := NewDelivery(e)
	if err != nil {
		return "", fmt.Errorf("append to inbox: %w", err)
	}
	select {
	case g.queue <- d:
	case <-g.closing:
		return "", fmt.Errorf("append to inbox: %w", ErrInboxClosed)
	case <-ctx.Done():
		return "", fmt.Errorf("append to inbox: %w", ctx.Err())
	}
	select {
	case <-d.done:
	case <-ctx.Done():
		return "", fmt.Errorf("append to inbox: %w", ctx.Err())
	}
	if d.Err != nil {
		return "", fmt.Errorf("append to inbox: %w", d.Err)
	}
	return d.Previous, nil
}

// Close stops accepting deliveries, and waits until the groups in progress are written. It may be called twice.
func (g *Groups) Close() {
	g.once.Do(func() { close(g.closing) })
	g.writers.Wait()
}

func (g *Groups) write(commit func([]*Delivery)) {
	for {
		select {
		case d := <-g.queue:
			group := g.gather(d)
			commit(group)
			for _, d := range group {
				close(d.done)
			}
		case <-g.closing:
			return
		}
	}
}

func (g *Groups) gather(first *Delivery) []*Delivery {
	group, size := []*Delivery{first}, first.Size
	for len(group) < groupEvents && size < groupBytes {
		select {
		case d := <-g.queue:
			group, size = append(group, d), size+d.Size
		default:
			return group
		}
	}
	return group
}
