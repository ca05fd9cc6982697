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
	"github.com/penstock-data/penstock/load/parquet/objects"
)

// bucket keeps a lake in an object store. The data files of a stream are below <stream>/<table>/, each under a name
// that is used only once. Beside them is one manifest for each generation. The manifest with the highest sequence
// number is the current one. The name of a manifest has two numbers. The second is the sequence number. The first
// counts down, so that a listing begins with the newest manifest:
//
//	<stream>/manifest-9999999987-00000012.json
//
// A commit stores its files, and then creates the next manifest on the condition that no object of that name exists.
// If two writers start from the same generation, only one can commit. Nothing is ever renamed, linked or locked.
// Invariants 1, 13
type bucket struct {
	o       objects.Bucket
	url     string // for messages, without the prefix: s3://name
	prefix  string // empty, or ends with a slash
	scratch string // folder for files before they are uploaded; "": the system's folder for temporary files
	vended  bool   // the keys are for one table at a time: see [objects.Vendor]
	step    func(name string) error
	log     *slog.Logger

	mu         sync.Mutex
	unfinished []objects.Upload
	listedAt   time.Time // unfinished uploads are listed at most once a day
}

func newBucket(o Options, step func(string) error) (*bucket, error) {
	store, place, err := objects.Open(o.Bucket, o.Store)
	if err != nil {
		return nil, err
	}
	prefix := strings.Trim(place.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &bucket{o: store, url: place.Scheme + "://" + place.Host, prefix: prefix, scratch: o.TempDir, vended: o.Store.Vendor != nil, step: step, log: o.Log}, nil
}

// pattern returns "", because a file pattern would also match outdated files.
func (b *bucket) pattern(string, bool) string { return "" }

func (b *bucket) streams(ctx context.Context, source string) ([]string, error) {
	names, err := b.o.Folders(ctx, b.prefix)
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
	work.SetLimit(lookupLimit)
	for i, name := range names {
		work.Go(func() error {
			sources, err := b.o.Folders(ctx, b.prefix+folderIn(name, ""))
			for _, source := range sources {
				shared[i] = append(shared[i], folderIn(name, source))
			}
			return err
		})
	}
	err = work.Wait()
	return append(names, slices.Concat(shared...)...), err
}

func (b *bucket) store(name string) streamStore {
	key := b.prefix + filepath.ToSlash(name)
	return &bucketStore{bucket: b, key: key, dir: func(t *table) string { return key + "/" + t.Folder }}
}

type bucketStore struct {
	bucket *bucket
	key    string
	dir    func(t *table) string // returns the folder of a table's data files

	mu     sync.Mutex
	seen   *manifest // the manifest that was last read or committed; nil: not read yet, or there is none
	seenAt time.Time
	listed map[string]int64 // the files that tidy has listed; nil before the first listing, and after the transaction has changed something
}

func (s *bucketStore) where() string { return s.bucket.url + "/" + s.key }

func (s *bucketStore) path(m *manifest, t *table) string {
	var out []string
	for _, f := range m.files(t) {
		out = append(out, s.bucket.url+"/"+f.key())
	}
	return strings.Join(out, "\n")
}

func (s *bucketStore) costly() bool { return true }

// The method hold() locks nothing. It need not, because a commit creates its manifest only if no manifest of that name
// exists. So of two concurrent commits, only one succeeds.
func (s *bucketStore) hold(context.Context) (func() error, error) {
	return func() error { return nil }, nil
}

const lastSequence = 9_999_999_999

func (s *bucketStore) manifestPrefix() string { return s.key + "/manifest-" }

func (s *bucketStore) manifestKey(sequence int64) string {
	return fmt.Sprintf("%s%010d-%08d.json", s.manifestPrefix(), lastSequence-sequence, sequence)
}

func (s *bucketStore) manifestNumber(key string) (sequence int64, ok bool) {
	down, _, _ := strings.Cut(strings.TrimPrefix(key, s.manifestPrefix()), "-")
	if _, err := fmt.Sscanf(down, "%d", &sequence); err != nil {
		return 0, false
	}
	sequence = lastSequence - sequence
	return sequence, s.manifestKey(sequence) == key
}

func (s *bucketStore) newest(ctx context.Context) (sequence int64, err error) {
	err = s.bucket.o.List(ctx, s.manifestPrefix(), 1, func(key string, _ int64) bool {
		var ok bool
		sequence, ok = s.manifestNumber(key)
		return !ok
	})
	return sequence, err
}

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
				continue // it was removed after it was listed
			}
		}
		if err != nil {
			return nil, err
		}
		s.learn(m)
		return m, nil
	}
}

func (s *bucketStore) learn(m *manifest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.seenAt = m, time.Now()
}

// The method recent() returns a manifest that may be a few seconds old. That is enough to look up tables of other
// streams. Without it, each of a hundred streams would read the manifests of all others.
func (s *bucketStore) recent(ctx context.Context) (*manifest, error) {
	s.mu.Lock()
	seen, asked := s.seen, s.seenAt
	s.mu.Unlock()
	if !asked.IsZero() && time.Since(asked) < recently {
		return seen, nil
	}
	return s.head(ctx)
}

const recently = 10 * time.Second

func (s *bucketStore) read(ctx context.Context, sequence int64) (*manifest, error) {
	key := s.manifestKey(sequence)
	text, _, err := s.bucket.o.Get(ctx, key, 0, 0)
	if err != nil {
		return nil, err
	}
	m := &manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", s.bucket.url, key, err)
	}
	if err := m.prepare(); err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", s.bucket.url, key, err)
	}
	m.locate(s, s.dir)
	return m, nil
}

func (f *file) key() string { return path.Join(filepath.ToSlash(f.dir), filepath.ToSlash(f.Name)) }

// The method live() returns only files that m names. The folder also holds files of earlier generations and of other
// programs.
func (s *bucketStore) live(ctx context.Context, m *manifest, t *table) (map[string]int64, error) {
	s.mu.Lock()
	all := s.listed
	s.mu.Unlock()
	if all == nil {
		all = map[string]int64{}
		if err := s.bucket.o.List(ctx, s.dir(t)+"/", 0, func(key string, size int64) bool { all[key] = size; return true }); err != nil {
			return nil, err
		}
	}
	var out map[string]int64
	for _, f := range m.named(t) {
		if size, ok := all[f.key()]; ok {
			if out == nil {
				out = map[string]int64{}
			}
			out[f.Name] = size
		}
	}
	return out, nil
}

// tidy removes outdated files and manifests. The name of a file has the number of the generation for which the file
// was written. Once a generation has dropped a file, no later manifest names the file again. So a file can be removed
// if two conditions hold: the number in its name is not above the number of the oldest kept manifest, and this manifest
// does not name the file. A manifest can be removed if m.Kept does not list it. Both rules hold for the files of all
// processes, so tidy need not wait for other processes or compare times.
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
	err := s.bucket.o.List(ctx, s.key+"/", 0, func(key string, size int64) bool {
		if sequence, ok := s.manifestNumber(key); ok {
			if sequence < last && !kept[sequence] {
				old = append(old, key)
			}
			return true
		}
		if !strings.HasPrefix(key, s.key+"/"+sourcePrefix) { // the folder of a source has its own manifests, and is tidied separately
			found[key] = size
		}
		return true
	})
	if err != nil {
		return err
	}
	s.remember(found)
	if m == nil {
		s.bucket.unfinishedUploads(ctx)
		if hasCommits(found) {
			return &load.ForeignChange{Table: path.Base(s.key), Diff: []string{
				"the manifests of " + s.where() + " are missing: restore them, or remove all objects there to load the stream again"}}
		}
		return nil
	}
	oldest := m
	if first != last {
		if oldest, err = s.read(ctx, first); errors.Is(err, fs.ErrNotExist) {
			oldest, err = nil, nil // another process has removed the manifest, so it is unknown which files it named
		}
		if err != nil {
			return err
		}
	}
	if oldest != nil {
		old = append(old, s.unnamed(oldest, found)...)
	}
	s.abortUploads(ctx, s.bucket.unfinishedUploads(ctx), m.Sequence, s.mine)
	if err := s.bucket.removeAll(ctx, old); err != nil {
		s.bucket.log.Warn("cannot remove outdated objects", "bucket", s.where(), "error", err)
	}
	return nil
}

func (s *bucketStore) remember(files map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = files
}

// hasCommits reports whether the files show that the stream had more than one commit. Before the first commit, only files
// of the first generation can exist.
func hasCommits(found map[string]int64) bool {
	for key := range found {
		if sequence, ok := fileSequence(key); ok && sequence > 1 {
			return true
		}
	}
	return false
}

func (s *bucketStore) unnamed(m *manifest, found map[string]int64) (out []string) {
	named := map[string]bool{}
	for _, t := range m.Tables {
		for _, f := range m.named(t) {
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

func fileSequence(key string) (sequence int64, ok bool) {
	base := path.Base(filepath.ToSlash(key))
	if !strings.HasSuffix(base, suffix) || len(base) != len(fileName(0)) {
		return 0, false
	}
	_, err := fmt.Sscanf(base, "%08d-", &sequence)
	return sequence, err == nil
}

func (b *bucket) removeAll(ctx context.Context, keys []string) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(objects.Removals)
	for _, key := range keys {
		work.Go(func() error { return b.o.Remove(ctx, key) })
	}
	return work.Wait()
}
