package postgres

import (
	"context"
	"fmt"

	"github.com/penstock-data/penstock/state"
)

// inbox is the inbox of all processes that share the database. To assign ordinals, a process locks the row of the table
// inbox until its commit. So events become visible in the order of their ordinals.
type inbox struct {
	s     *Store
	quota int64
	read  bool

	groups *state.Groups
}

var _ state.Inbox = (*inbox)(nil)

const defaultQuota = 1 << 30

// OpenInbox implements [state.Store].
func (s *Store) OpenInbox(ctx context.Context, o state.InboxOptions) (state.Inbox, error) {
	b, err := newInbox(ctx, s, o)
	if err != nil {
		return nil, err
	}
	b.groups = state.NewGroups(writers, b.commit)
	return b, nil
}

// writers is the number of groups that one process writes concurrently. With two groups, the process can fill one group
// while the other one is synced.
const writers = 2

func newInbox(ctx context.Context, s *Store, o state.InboxOptions) (*inbox, error) {
	if err := s.read(ctx, ping(ctx)); err != nil {
		return nil, fmt.Errorf("open inbox: %w", err)
	}
	b := &inbox{s: s, quota: o.Quota}
	if b.quota == 0 {
		b.quota = defaultQuota
	}
	return b, nil
}

// ReadInbox implements [state.Store]. The first migration creates the inbox, so it always exists.
func (s *Store) ReadInbox(ctx context.Context) (state.Inbox, error) {
	b, err := newInbox(ctx, s, state.InboxOptions{})
	if err != nil {
		return nil, err
	}
	b.read, b.quota, b.groups = true, 0, state.NewGroups(0, nil)
	return b, b.Close()
}

// Quota implements [state.EventKeeper].
func (b *inbox) Quota() int64 { return b.quota }

// Close implements [state.Inbox].
func (b *inbox) Close() error {
	b.groups.Close()
	return nil
}

// Append implements [state.Intake]: see [state.InboxFile.Append]. // Invariant 3
func (b *inbox) Append(ctx context.Context, e state.Event) (state.Appended, error) {
	return b.groups.Append(ctx, e)
}

// today is the number of days since 1970 by the database's clock. Hosts do not use their own clocks for this, because
// one wrong clock would make all hosts forget the ids of deliveries.
const today = "floor(extract(epoch FROM now()) / 86400)::integer"
