package parquet

import (
	"context"
	"errors"
	"fmt"
)

// ErrUnconditional says that a store takes a second object of the same name
// though it was told not to: of two who commit at once, both would win.
var ErrUnconditional = errors.New("the store ignores the condition that commits rest on (If-None-Match: *)")

// Check tries, in a bucket, all that commits need: to store an object, and not to
// store another over it, to list, read and remove it.
func (l *Lake) Check(ctx context.Context) error {
	b, ok := l.storage.(*bucket)
	if !ok {
		return nil
	}
	key := b.prefix + "_check-" + randomName() + ".json"
	if err := b.o.create(ctx, key, []byte("1")); err != nil {
		return fmt.Errorf("check %s: %w", l.o.Bucket, err)
	}
	return errors.Join(b.check(ctx, key), b.o.remove(ctx, key))
}

func (b *bucket) check(ctx context.Context, key string) error {
	switch err := b.o.create(ctx, key, []byte("2")); {
	case err == nil:
		return ErrUnconditional
	case !errors.Is(err, errTaken):
		return err
	}
	listed := false
	err := b.o.list(ctx, key, 1, func(found string, _ int64) bool { listed = found == key; return false })
	if err != nil {
		return err
	}
	text, _, err := b.o.get(ctx, key, 0, 0)
	if err == nil && (!listed || string(text) != "1") {
		err = fmt.Errorf("%s/%s is not found as it was stored", b.url, key)
	}
	return err
}
