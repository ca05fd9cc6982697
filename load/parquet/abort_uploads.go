package parquet

import (
	"context"
	"slices"
	"strings"
	"time"
)

// abandonedAfter is the age after which an unfinished multipart upload counts as abandoned, whatever
// object it is for.
const abandonedAfter = 24 * time.Hour

// begun returns the unfinished multipart uploads: those that some process is still sending, and those
// that killed processes left behind. Stores charge for this listing, so a process lists once and then
// once a day.
func (b *bucket) begun(ctx context.Context) []partial {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.looked.IsZero() && time.Since(b.looked) < abandonedAfter {
		return b.partial
	}
	b.looked = time.Now()
	all, err := b.o.uploads(ctx, b.prefix)
	if err != nil {
		b.log.Warn("cannot list unfinished uploads", "bucket", b.url, "error", err)
		return b.partial
	}
	b.partial = all
	return all
}

// left returns the unfinished uploads that the last listing found.
func (b *bucket) left() []partial {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.partial
}

// abortUploads aborts uploads that no commit can use. As with files, an upload of an existing
// generation is useless, because no later manifest names it, even if a process is still sending it. An
// upload for the next generation may be in progress, and is kept for a day at most.
func (s *bucketStore) abortUploads(ctx context.Context, all []partial, sequence int64) {
	n := 0
	for _, p := range all {
		if !s.dead(p, sequence) || ctx.Err() != nil {
			continue
		}
		if err := s.o.abortUploads(ctx, p); err != nil {
			s.log.Warn("cannot abort an unfinished upload", "bucket", s.url, "error", err)
			continue
		}
		s.forget(p)
		n++
	}
	if n > 0 {
		s.log.Info("aborted unfinished uploads", "bucket", s.where(), "uploads", n)
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

// forget removes an aborted upload from the list.
func (b *bucket) forget(p partial) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.partial = slices.DeleteFunc(slices.Clone(b.partial), func(o partial) bool { return o == p })
}
