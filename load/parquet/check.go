package parquet

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-data/penstock/load/parquet/objects"
)

// ErrUnconditional reports that a store overwrites an object although the request has the condition that the object
// must not exist. In such a store, two concurrent commits would both succeed, and one would be lost.
var ErrUnconditional = errors.New("the store ignores the condition that commits depend on (If-None-Match: *)")

// Check tries the operations that commits need in a bucket. It stores an object, and tries to overwrite it, which the
// store must refuse. Then it lists, reads and removes the object. For other lakes it does nothing.
func (l *Lake) Check(ctx context.Context) error {
	b, ok := l.storage.(*bucket)
	if !ok {
		return nil
	}
	key := b.prefix + "_check-" + randomName() + ".json"
	if err := b.o.Create(ctx, key, []byte("1")); err != nil {
		return fmt.Errorf("check %s: %w", l.o.Bucket, err)
	}
	return errors.Join(b.check(ctx, key), b.o.Remove(ctx, key))
}

func (b *bucket) check(ctx context.Context, key string) error {
	switch err := b.o.Create(ctx, key, []byte("2")); {
	case err == nil:
		return ErrUnconditional
	case !errors.Is(err, objects.ErrTaken):
		return err
	}
	listed := false
	err := b.o.List(ctx, key, 1, func(found string, _ int64) bool { listed = found == key; return false })
	if err != nil {
		return err
	}
	text, _, err := b.o.Get(ctx, key, 0, 0)
	if err == nil && (!listed || string(text) != "1") {
		err = fmt.Errorf("check %s/%s: the store does not return the object as it was stored", b.url, key)
	}
	return err
}
