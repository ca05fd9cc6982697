package parquet

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load/parquet/objects"
)

// abandonedAfter is the age after which an unfinished multipart upload counts as abandoned.
const abandonedAfter = 24 * time.Hour

// unfinishedUploads lists the uploads of this and other processes that are not finished. Stores charge for listing. So
// unfinishedUploads requests a list at most once a day, and otherwise returns the previous list.
func (b *bucket) unfinishedUploads(ctx context.Context) []objects.Upload {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.listedAt.IsZero() && time.Since(b.listedAt) < abandonedAfter {
		return b.unfinished
	}
	b.listedAt = time.Now()
	all, err := b.o.Uploads(ctx, b.prefix)
	if err != nil {
		b.log.Warn("cannot list unfinished uploads", "bucket", b.url, "error", err)
		return b.unfinished
	}
	b.unfinished = all
	return all
}

func (b *bucket) knownUploads() []objects.Upload {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unfinished
}

// abortUploads aborts uploads that no commit can use. The name of a file begins with the number of the generation for
// which the file is written. If a generation with this number already exists, no later manifest will name the file,
// even if a process is still sending it. Other uploads may be in progress. They are aborted after a day.
//
// The function mine reports whether an object belongs to the stream.
func (s *bucketStore) abortUploads(ctx context.Context, all []objects.Upload, sequence int64, mine func(key string) bool) {
	n := 0
	for _, p := range all {
		if !mine(p.Key) || !abandoned(p, sequence) || ctx.Err() != nil {
			continue
		}
		if err := s.bucket.o.AbortUpload(ctx, p); err != nil {
			s.bucket.log.Warn("cannot abort an unfinished upload", "bucket", s.bucket.url, "error", err)
			continue
		}
		s.bucket.forgetUpload(p)
		n++
	}
	if n > 0 {
		s.bucket.log.Info("aborted unfinished uploads", "bucket", s.where(), "uploads", n)
	}
}

// mine reports whether an object belongs to the stream, and not to one of the sources that have a folder in it.
func (s *bucketStore) mine(key string) bool {
	rest, mine := strings.CutPrefix(key, s.key+"/")
	return mine && !strings.HasPrefix(rest, sourcePrefix)
}

func abandoned(p objects.Upload, sequence int64) bool {
	of, ok := fileSequence(p.Key)
	return ok && of <= sequence || time.Since(p.Begun) > abandonedAfter
}

func (b *bucket) forgetUpload(p objects.Upload) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unfinished = slices.DeleteFunc(slices.Clone(b.unfinished), func(o objects.Upload) bool { return o == p })
}
