package parquet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/load"
)

// bucket keeps a lake in an object store. A stream's data files lie under
// <stream>/<table>/, each under a name of its own for good, and beside them a
// manifest for each generation. The one with the highest number counts; names
// count down, so that the first in a listing is the newest:
//
//	<stream>/manifest-9999999987-00000012.json
//
// A commit stores its files and then, where no object of that name is there, the
// next manifest. Of two writers who follow the same generation one wins, and
// nothing is ever renamed, linked or locked. // Invariants 1, 13
type bucket struct {
	o       objects
	url     string // for people, without the prefix: s3://name
	prefix  string // "" or one that ends with a slash
	scratch string // folder of files on their way up; "": the system's
	step    func(name string) error
	log     *slog.Logger

	mu      sync.Mutex
	partial []partial // uploads of others that have not ended
	looked  time.Time // when they were looked for; not more than once a day
}

// removals is how many objects are removed at once.
const removals = 8

// newBucket opens o.Bucket.
func newBucket(o Options, step func(string) error) (*bucket, error) {
	store, place, err := openStore(o.Bucket, o.Store)
	if err != nil {
		return nil, err
	}
	prefix := strings.Trim(place.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &bucket{o: store, url: place.Scheme + "://" + place.Host, prefix: prefix, scratch: o.TempDir, step: step, log: o.Log}, nil
}

// pattern implements [storage]: patterns would find outdated files as well.
func (b *bucket) pattern(string, bool) string { return "" }

// streams implements [storage].
func (b *bucket) streams(ctx context.Context, source string) ([]string, error) {
	names, err := b.o.folders(ctx, b.prefix)
	if err != nil {
		return nil, err
	}
	if source != "" {
		for i, name := range names {
			names[i] = folderIn(name, source)
		}
		return names, nil
	}
	shared := make([][]string, len(names))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(together)
	for i, name := range names {
		work.Go(func() error {
			sources, err := b.o.folders(ctx, b.prefix+folderIn(name, ""))
			for _, source := range sources {
				shared[i] = append(shared[i], folderIn(name, source))
			}
			return err
		})
	}
	err = work.Wait()
	return append(names, slices.Concat(shared...)...), err
}

// shelf implements [storage].
func (b *bucket) shelf(name string) streamStore {
	return &bucketStore{bucket: b, key: b.prefix + filepath.ToSlash(name)}
}

// bucketStore is what the names of a stream's objects begin with.
type bucketStore struct {
	*bucket
	key string

	mu    sync.Mutex
	seen  *manifest        // as last read or committed; nil before, and where there is none
	asked time.Time        // when that was so
	found map[string]int64 // the files there were when a transaction began to look, until it changes something
}

// where implements [streamStore].
func (s *bucketStore) where() string { return s.url + "/" + s.key }

// path implements [streamStore]: the files, one a line.
func (s *bucketStore) path(m *manifest, t *table) string {
	var out []string
	for _, f := range m.files(t) {
		out = append(out, s.url+"/"+f.key())
	}
	return strings.Join(out, "\n")
}

// dear implements [streamStore].
func (s *bucketStore) dear() bool { return true }

// hold implements [streamStore]: the commit is the fence.
func (s *bucketStore) hold(context.Context) (func() error, error) {
	return func() error { return nil }, nil
}

// lastSequence is the highest number that a manifest can have.
const lastSequence = 9_999_999_999

// manifestPrefix is what the names of a stream's manifests begin with.
func (s *bucketStore) manifestPrefix() string { return s.key + "/manifest-" }

// manifestKey is the name of a manifest.
func (s *bucketStore) manifestKey(sequence int64) string {
	return fmt.Sprintf("%s%010d-%08d.json", s.manifestPrefix(), lastSequence-sequence, sequence)
}

// manifestNumber is the sequence in the name of a manifest.
func (s *bucketStore) manifestNumber(key string) (sequence int64, ok bool) {
	down, _, _ := strings.Cut(strings.TrimPrefix(key, s.manifestPrefix()), "-")
	if _, err := fmt.Sscanf(down, "%d", &sequence); err != nil {
		return 0, false
	}
	sequence = lastSequence - sequence
	return sequence, s.manifestKey(sequence) == key
}

// newest is the number of the manifest that counts; 0 where there is none.
func (s *bucketStore) newest(ctx context.Context) (sequence int64, err error) {
	err = s.o.list(ctx, s.manifestPrefix(), 1, func(key string, _ int64) bool {
		var ok bool
		sequence, ok = s.manifestNumber(key)
		return !ok // what is none of ours is passed over
	})
	return sequence, err
}

// head implements [streamStore].
func (s *bucketStore) head(ctx context.Context) (*manifest, error) {
	for {
		sequence, err := s.newest(ctx)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		seen := s.seen
		s.mu.Unlock()
		if sequence == 0 || seen != nil && seen.Sequence == sequence {
			if sequence == 0 {
				seen = nil
			}
			s.learn(seen)
			return seen, nil
		}
		m, err := s.read(ctx, sequence)
		if errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
			if now, listed := s.newest(ctx); listed == nil && now != sequence {
				continue // it was removed while we looked
			}
		}
		if err != nil {
			return nil, err
		}
		s.learn(m)
		return m, nil
	}
}

// learn remembers a manifest that counts.
func (s *bucketStore) learn(m *manifest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.asked = m, time.Now()
}

// recent is head as it was not long ago: enough for what is only looked up of a
// stream, and a hundred streams would otherwise ask for each other.
func (s *bucketStore) recent(ctx context.Context) (*manifest, error) {
	s.mu.Lock()
	seen, asked := s.seen, s.asked
	s.mu.Unlock()
	if !asked.IsZero() && time.Since(asked) < recently {
		return seen, nil
	}
	return s.head(ctx)
}

const recently = 10 * time.Second

// read reads a manifest.
func (s *bucketStore) read(ctx context.Context, sequence int64) (*manifest, error) {
	key := s.manifestKey(sequence)
	text, _, err := s.o.get(ctx, key, 0, 0)
	if err != nil {
		return nil, err
	}
	m := &manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", s.url, key, err)
	}
	if err := m.prepare(); err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", s.url, key, err)
	}
	m.locate(s, s.key)
	return m, nil
}

// key is the file's name in its bucket.
func (f *file) key() string { return path.Join(filepath.ToSlash(f.dir), filepath.ToSlash(f.Name)) }

// live implements [streamStore]. Files of earlier generations lie beside those of m, and
// whatever else does is in nobody's way: only what m names is looked for.
func (s *bucketStore) live(ctx context.Context, m *manifest, t *table) (map[string]int64, error) {
	s.mu.Lock()
	all := s.found
	s.mu.Unlock()
	if all == nil {
		all = map[string]int64{}
		if err := s.o.list(ctx, s.key+"/"+t.Folder+"/", 0, func(key string, size int64) bool { all[key] = size; return true }); err != nil {
			return nil, err
		}
	}
	var out map[string]int64
	for _, f := range m.files(t) {
		if size, ok := all[f.key()]; ok {
			if out == nil {
				out = map[string]int64{}
			}
			out[f.Name] = size
		}
	}
	return out, nil
}

// tidy implements [streamStore]. A file was written for the generation whose number is
// in its name, and once a later one has dropped it no manifest names it again.
// So what the oldest manifest that is kept does not name, of its number or below,
// nobody will ever ask for, whoever wrote it and whenever; and so it is with
// manifests that the newest one does not keep. Nobody need be waited for, and no
// clock is asked.
func (s *bucketStore) tidy(ctx context.Context, m *manifest) error {
	var old []string
	found := map[string]int64{}
	kept := map[int64]bool{}
	first, last := int64(0), int64(0)
	if m != nil {
		first, last = m.Sequence, m.Sequence
		for _, g := range m.Kept {
			kept[g.Sequence] = true
			first = min(first, g.Sequence)
		}
	}
	err := s.o.list(ctx, s.key+"/", 0, func(key string, size int64) bool {
		if sequence, ok := s.manifestNumber(key); ok {
			if sequence < last && !kept[sequence] {
				old = append(old, key)
			}
			return true
		}
		if !strings.HasPrefix(key, s.key+"/"+sourcePrefix) { // those have shelves of their own
			found[key] = size
		}
		return true
	})
	if err != nil {
		return err
	}
	s.finds(found)
	if m == nil {
		s.begun(ctx)
		return s.orphaned(found)
	}
	oldest := m
	if first != last {
		if oldest, err = s.read(ctx, first); errors.Is(err, fs.ErrNotExist) {
			oldest, err = nil, nil // somebody has removed it: nobody can say what it named
		}
		if err != nil {
			return err
		}
	}
	if oldest != nil {
		old = append(old, s.unnamed(oldest, found)...)
	}
	s.abortUploads(ctx, s.begun(ctx), m.Sequence)
	if err := s.removeAll(ctx, old); err != nil {
		s.log.Warn("outdated objects cannot be removed", "bucket", s.where(), "error", err)
	}
	return nil
}

// finds remembers the files there are; nil forgets them.
func (s *bucketStore) finds(files map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = files
}

// orphaned refuses a stream whose manifests somebody has removed: only files of
// the first generation may stand there without one.
func (s *bucketStore) orphaned(found map[string]int64) error {
	for key := range found {
		if sequence, ok := fileSequence(key); ok && sequence > 1 {
			return &load.ForeignChange{Table: path.Base(s.key), Diff: []string{
				"the manifests of " + s.where() + " are gone: put them back, or remove all that lies there to load it anew"}}
		}
	}
	return nil
}

// unnamed are the files found that no manifest from m on names.
func (s *bucketStore) unnamed(m *manifest, found map[string]int64) (out []string) {
	named := map[string]bool{}
	for _, t := range m.Tables {
		for _, f := range m.files(t) {
			named[f.key()] = true
		}
	}
	for key := range found {
		if sequence, ok := fileSequence(key); ok && sequence <= m.Sequence && !named[key] {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// fileSequence is the number of the generation that a data file was written for.
func fileSequence(key string) (sequence int64, ok bool) {
	base := path.Base(filepath.ToSlash(key))
	if !strings.HasSuffix(base, suffix) || len(base) != len(fileName(0)) {
		return 0, false
	}
	_, err := fmt.Sscanf(base, "%08d-", &sequence)
	return sequence, err == nil
}

// removeAll removes objects, several at once.
func (b *bucket) removeAll(ctx context.Context, keys []string) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(removals)
	for _, key := range keys {
		work.Go(func() error { return b.o.remove(ctx, key) })
	}
	return work.Wait()
}
