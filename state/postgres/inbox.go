package postgres

import (
	"context"
	"fmt"

	"github.com/penstock-data/penstock/state"
)

// inbox keeps webhook deliveries in the database. Any number of processes have it
// at once: whoever gives ordinals holds the row of the inbox until its commit, so
// that events appear in the order of their ordinals.
type inbox struct {
	s     *Store
	quota int64
	read  bool // it was opened for reading

	groups *state.Groups
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
	b.groups = state.NewGroups(writers, b.commit)
	return b, nil
}

// writers is how many groups of one process are under way: while one is being
// synced the next is being written.
const writers = 2

func (s *Store) openInbox(ctx context.Context, o state.InboxOptions) (*inbox, error) {
	if err := s.look(ctx, ping(ctx)); err != nil {
		return nil, fmt.Errorf("open inbox: %w", err)
	}
	b := &inbox{s: s, quota: o.Quota}
	if b.quota == 0 {
		b.quota = defaultQuota
	}
	return b, nil
}

// ReadInbox implements [state.Store]. There always is an inbox.
func (s *Store) ReadInbox(ctx context.Context) (state.Inbox, error) {
	b, err := s.openInbox(ctx, state.InboxOptions{})
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

// today counts days since 1970, by the database's clock: one host whose clock is
// wrong must not have the others forget what was delivered.
const today = "floor(extract(epoch FROM now()) / 86400)::integer"
