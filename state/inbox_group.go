package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// conflictOf is the value of the column of this name.
func conflictOf(d *Delivery) int {
	if d.Was == Conflicting {
		return conflictLater
	}
	return conflictNone
}

// commit has a group in the file and synced when it returns, or says in each of
// the group why not. // Invariant 3
func (b *InboxFile) commit(group []*Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ctx := context.Background() // those who wait may leave, their group is written all the same
	err := b.room(ctx, group)
	if err == nil {
		err = b.change(ctx, func(tx inboxTx, a *account) error {
			g := &grouping{tx: tx, account: a, quota: b.quota, heads: map[string]head{}}
			return g.put(ctx, group)
		})
	}
	if err == nil {
		return
	}
	for _, d := range group {
		d.Was, d.Err = "", err
	}
}

// spareSpace is what events leave free of a disk, half of a small one: to take
// out what was applied needs room, too, and a journal without any is stuck.
const spareSpace = 64 << 20

// roomFor returns [ErrInboxFull], wrapped, if a group would take the last of the
// disk.
func (b *InboxFile) roomFor(ctx context.Context, group []*Delivery) error {
	free, all, ok := diskSpace(filepath.Dir(b.file.path))
	for _, d := range group {
		free -= 2 * d.Size // in the journal and in the file
	}
	spare := min(spareSpace, all/2)
	if !ok || free >= spare {
		return nil
	}
	empty, err := b.file.empty(ctx) // of the file, by what was trimmed
	if err == nil && free+empty < spare {
		err = fmt.Errorf("%w: the disk has no room", ErrInboxFull)
	}
	return err
}

// change runs do in a transaction, with an account that do may change along with
// the file. mu is held. Where it fails the file is as before, and the account is
// read again the next time: nobody knows what has become of a failed commit. So
// the inbox recovers by itself from whatever the disk was short of.
func (b *InboxFile) change(ctx context.Context, do func(inboxTx, *account) error) error {
	if b.file.write == nil {
		return errors.New("it was opened for reading")
	}
	err := b.file.there()
	if err == nil && b.account == nil {
		b.account, err = readAccount(ctx, b.file.read)
	}
	if err == nil {
		err = b.file.change(ctx, func(tx *sql.Tx) error { return do(inboxTx{tx, b.compiled}, b.account) })
	}
	if err != nil {
		b.account = nil
	}
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_FULL {
		return fmt.Errorf("%w: the disk has no room: %w", ErrInboxFull, err)
	}
	return err
}
