package state

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

// A group is what is written and synced at once: whatever has come while the one
// before it was.
const (
	groupEvents = 512
	groupBytes  = 8 << 20
)

// eventOverhead is what the quota counts for a row beside its texts.
const eventOverhead = 128

// Delivery is an event on its way into an inbox.
type Delivery struct {
	Event  Event
	Key    [16]byte // of its source and id; zero for an event without an id
	Digest [16]byte // of its body
	Header []byte   // as JSON
	Size   int64    // bytes that the quota counts

	// What has become of it, for whoever writes its group to say.
	Was Appended
	Err error

	done chan struct{} // closed once that is known
}

// NewDelivery is an event with what it is known by.
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

// Groups has the deliveries that come at the same time written and synced
// together: the group commit of an inbox, whatever it is kept in. It is safe for
// concurrent use.
type Groups struct {
	queue   chan *Delivery // unbuffered: who could send is sure of an answer
	closing chan struct{}
	once    sync.Once
	writers sync.WaitGroup
}

// NewGroups has groups written by commit, so many at once. When commit returns a
// group is durable, or each of its deliveries says why not. // Invariant 3
func NewGroups(writers int, commit func([]*Delivery)) *Groups {
	g := &Groups{queue: make(chan *Delivery), closing: make(chan struct{})}
	for range writers {
		g.writers.Go(func() { g.write(commit) })
	}
	return g
}

// Append hands in an event and waits until its group is written: see
// [InboxFile.Append]. It returns [ErrInboxClosed], wrapped, after Close.
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
	return d.Was, nil
}

// Close waits for the groups that are being written and takes no further
// deliveries. Doing so twice is fine.
func (g *Groups) Close() {
	g.once.Do(func() { close(g.closing) })
	g.writers.Wait()
}

// write writes groups until no more are taken.
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

// gather returns first and whatever else waits.
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
