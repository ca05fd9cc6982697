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

func conflictOf(d *Delivery) int {
	if d.Previous == Conflicting {
		return conflictLater
	}
	return conflictNone
}

// commit writes a group of deliveries to the file and syncs it; see [Groups]. If that fails, it sets the error of each
// delivery of the group. // Invariant 3
func (b *InboxFile) commit(group []*Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ctx := context.Background() // a group is written even if the callers stop waiting
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
		d.Previous, d.Err = "", err
	}
}

// spareSpace is the disk space that must stay free when events are stored, because deleting applied events needs space
// too. On a disk of less than 128 MiB, events may use half of the disk.
const spareSpace = 64 << 20

// roomFor returns [ErrInboxFull], wrapped, if writing the group would leave less free space than spareSpace. Free
// space inside the file counts as free.
func (b *InboxFile) roomFor(ctx context.Context, group []*Delivery) error {
	free, all, ok := diskSpace(filepath.Dir(b.file.path))
	for _, d := range group {
		free -= 2 * d.Size // each event is written twice: to the WAL and to the file
	}
	spare := min(spareSpace, all/2)
	if !ok || free >= spare {
		return nil
	}
	empty, err := b.file.empty(ctx) // space of trimmed events
	if err == nil && free+empty < spare {
		err = fmt.Errorf("%w: the disk has no room", ErrInboxFull)
	}
	return err
}

// change calls the function update in a transaction. The caller holds b.mu. After an error, the transaction may have
// been committed all the same. So the next call reads the account from the file again.
func (b *InboxFile) change(ctx context.Context, update func(inboxTx, *account) error) error {
	if b.file.write == nil {
		return errors.New("the inbox was opened for reading")
	}
	err := b.file.checkFile()
	if err == nil && b.account == nil {
		b.account, err = readAccount(ctx, b.file.read)
	}
	if err == nil {
		err = b.file.change(ctx, func(tx *sql.Tx) error { return update(inboxTx{tx, b.compiled}, b.account) })
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
