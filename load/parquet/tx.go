package parquet

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// tx is a transaction. It collects batches until the first Apply. From then on it holds the stream's lock and
// builds the next generation.
type tx struct {
	builder
	seen        seenRows
	pending     []*load.Staged
	unlockStore func() error // releases the store's lock; nil: not locked
	failed      error        // the error of an Apply, after which nothing can be committed
	done        bool
	unmerged    bool // commit does not merge segments, because a pass in progress counts the rows of its segments
}

func (x *tx) lock(ctx context.Context) error {
	select {
	case x.folder.writer <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	free, err := x.folder.store.hold(ctx)
	if err != nil {
		<-x.folder.writer
		return err
	}
	x.unlockStore = free
	return nil
}

// checkFence returns [state.ErrMoved] if another commit has changed the stream since the transaction began. A commit of
// another source that only widened columns does not count. Invariant 13
func (x *tx) checkFence(ctx context.Context) error {
	now, err := x.head(ctx)
	if err != nil {
		return err
	}
	if ownGenerations(now) != ownGenerations(x.base) || movesOf(now) != movesOf(x.base) || cursorFor(now, x.key) != x.from {
		return state.ErrMoved
	}
	x.base = now
	return nil
}

func (x *tx) tidy(ctx context.Context) error {
	return x.folder.store.tidy(ctx, x.base)
}

// Rollback implements [load.Tx].
func (x *tx) Rollback() error {
	if x.done {
		return nil
	}
	x.done = true
	for _, p := range x.pending {
		p.Release()
	}
	x.pending = nil
	for _, s := range x.internal {
		s.Release()
	}
	if x.unlockStore == nil {
		return nil
	}
	var err error
	if x.draft != nil {
		err = x.draft.discard()
	}
	x.folder.keys.prune(x.base)
	if err = errors.Join(err, x.unlock()); err != nil {
		return fmt.Errorf("roll back %s: %w", x.key.Stream, err)
	}
	return nil
}

func (x *tx) unlock() error {
	err := x.unlockStore()
	<-x.folder.writer
	return err
}

func (x *tx) head(ctx context.Context) (*manifest, error) {
	m, err := x.lake.manifestFor(ctx, x.folder, x.key)
	if _, another := errors.AsType[*load.OwnerError](err); another && x.spec.Claim.Adopt {
		return x.folder.manifest(ctx)
	}
	return m, err
}
