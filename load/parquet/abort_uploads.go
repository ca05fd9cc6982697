package parquet

import (
	"context"
	"slices"
	"strings"
	"time"
)

// abandonedAfter is how old an upload in parts must be for it to be nobody's,
// whatever it is of.
const abandonedAfter = 24 * time.Hour

// begun are the uploads in parts that somebody has begun and not ended: those of
// who is at work just now, and those of who was killed. They are listed once in a
// process, and then daily: a store charges for it.
func (b *bucket) begun(ctx context.Context) []partial {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.looked.IsZero() && time.Since(b.looked) < abandonedAfter {
		return b.partial
	}
	b.looked = time.Now()
	all, err := b.o.uploads(ctx, b.prefix)
	if err != nil {
		b.log.Warn("uploads that were never ended cannot be listed", "bucket", b.url, "error", err)
		return b.partial
	}
	b.partial = all
	return all
}

// left are the uploads known to have been begun and not ended.
func (b *bucket) left() []partial {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.partial
}

// abortUploads gives up the uploads that nobody will ever need. As with files, that is
// what is of a generation that has come: no manifest will name it, whoever still
// sends it. What is of the next may be under way somewhere, for a day at most.
func (s *bucketStore) abortUploads(ctx context.Context, all []partial, sequence int64) {
	n := 0
	for _, p := range all {
		if !s.dead(p, sequence) || ctx.Err() != nil {
			continue
		}
		if err := s.o.abortUploads(ctx, p); err != nil {
			s.log.Warn("an upload that was never ended cannot be given up", "bucket", s.url, "error", err)
			continue
		}
		s.forget(p)
		n++
	}
	if n > 0 {
		s.log.Info("uploads that were never ended were given up", "bucket", s.where(), "uploads", n)
	}
}

func (s *bucketStore) dead(p partial, sequence int64) bool {
	rest, mine := strings.CutPrefix(p.key, s.key+"/")
	if !mine || strings.HasPrefix(rest, sourcePrefix) {
		return false
	}
	of, ok := fileSequence(p.key)
	return ok && of <= sequence || time.Since(p.begun) > abandonedAfter
}

// forget takes an upload that is gone from those left.
func (b *bucket) forget(p partial) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.partial = slices.DeleteFunc(slices.Clone(b.partial), func(o partial) bool { return o == p })
}
