package parquet

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/schemas"
)

// keyCache holds what is known of the keys of a stream's rows, by the name of
// their file, so that a pass of many transactions reads each file's columns
// once. A pass that comes by in the order of the files, as most do, needs the
// last few lists alone: a long one is let go of when others have come, and is
// only put where it is found again if it is asked for again. // Invariant 6
type keyCache struct {
	lists  map[string]*keylist
	recent []string        // of those in lists, the long ones in memory, in the order in which they came
	rows   int             // of these
	again  map[string]bool // were let go of
}

func newKeyring() keyCache {
	return keyCache{lists: map[string]*keylist{}, again: map[string]bool{}}
}

// keylist has three words for each row of a file, in order: the fingerprint of
// its key, and the mark of its hash. Long ones may lie in the lake's scratch
// file.
type keylist struct {
	rows    int
	words   []uint64 // nil where they lie in scratch
	scratch *scratch
	at      int64
}

const (
	wordsRow   = 3
	shortList  = 4 << 10   // rows of a list that is kept in memory
	recentRows = 256 << 10 // of long ones, all together; the last one stays however long it is
	chunkRows  = 8 << 10   // that are looked through at once
	deadMark   = uint64(1)
	wordsBytes = 8 * wordsRow
)

// markOf is 63 bits of a row's hash, and whether the row bears a tombstone or
// has ended.
func markOf(hash string, dead bool) uint64 {
	m := xxh3.HashString(hash) << 1
	if dead {
		m |= deadMark
	}
	return m
}

// keysOf are the keys of the rows of a root table's file.
func (x *tx) keysOf(ctx context.Context, t *table, f *file) (*keylist, error) {
	if k := x.folder.keys.lists[f.Name]; k != nil {
		return k, nil
	}
	words := make([]uint64, 0, wordsRow*f.Rows)
	columns := t.identity()
	n := len(columns)
	if t.has(schemas.ColHash) {
		columns = append(columns[:n:n], schemas.ColHash)
	}
	if ended := t.ended(); ended != "" {
		columns = append(columns[:len(columns):len(columns)], ended)
	}
	err := f.read(ctx, t, columns, func(_ int64, b []arrow.Array, rows int) error {
		prints := fingerprints(b[:n], rows)
		for i, p := range prints {
			words = append(words, p.Hi, p.Lo, markAt(b[n:], i))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return x.keep(f, words)
}

// markAt is the mark of row i from its hash, where it has one, and the column
// that is null in rows which stand.
func markAt(b []arrow.Array, i int) uint64 {
	if len(b) == 0 {
		return 0
	}
	hash := ""
	if a, ok := b[0].(*array.String); ok && a.IsValid(i) {
		hash = a.Value(i)
	}
	return markOf(hash, len(b) > 1 && b[1].IsValid(i))
}

// keep holds on to the keys of a file's rows.
func (x *tx) keep(f *file, words []uint64) (*keylist, error) {
	ring := &x.folder.keys
	k := &keylist{rows: len(words) / wordsRow, words: words}
	switch {
	case k.rows <= shortList:
	case ring.again[f.Name]:
		var err error
		if k.at, err = x.lake.scratch.put(words); err != nil {
			return nil, fmt.Errorf("note keys: %w", err)
		}
		k.scratch, k.words = &x.lake.scratch, nil
	default:
		ring.recent, ring.rows = append(ring.recent, f.Name), ring.rows+k.rows
	}
	ring.lists[f.Name] = k
	for ring.rows > recentRows && len(ring.recent) > 1 {
		old := ring.recent[0]
		ring.drop(old)
		ring.again[old] = true
	}
	return k, nil
}

// drop forgets the keys of a file.
func (k *keyCache) drop(name string) {
	list := k.lists[name]
	if i := slices.Index(k.recent, name); i >= 0 {
		k.recent, k.rows = slices.Delete(k.recent, i, i+1), k.rows-list.rows
	}
	list.free()
	delete(k.lists, name)
}

// chunk hands out the words of the rows from first on, up to chunkRows of them.
func (k *keylist) chunk(first int, buf []uint64) ([]uint64, error) {
	last := min(k.rows, first+chunkRows)
	if k.words != nil {
		return k.words[first*wordsRow : last*wordsRow], nil
	}
	buf = buf[:(last-first)*wordsRow]
	return buf, k.scratch.get(k.at+int64(first)*wordsBytes, buf)
}

// prune forgets the keys of files that are no longer there.
func (k *keyCache) prune(m *manifest) {
	kept := map[string]bool{}
	if m != nil {
		for _, s := range m.Segments {
			if f := s.root(); f != nil {
				kept[f.Name] = true
			}
		}
	}
	for name := range k.lists {
		if !kept[name] {
			k.drop(name)
		}
	}
	maps.DeleteFunc(k.again, func(name string, _ bool) bool { return !kept[name] })
}

func (k *keylist) free() {
	if k.scratch != nil {
		k.scratch.free(k.at, k.rows*wordsRow)
	}
}

// scratch is a file for what a process has to remember and cannot hold in
// memory. It has no name as soon as it is open, and goes with the process.
type scratch struct {
	dir string

	mu   sync.Mutex
	f    *os.File
	end  int64
	idle map[int][]int64 // places that are free, by their length in words
}

func (s *scratch) put(words []uint64) (at int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		if s.f, err = os.CreateTemp(s.dir, "penstock-keys-"); err != nil {
			return 0, err
		}
		_ = os.Remove(s.f.Name()) // where that cannot be yet, close does it
		s.idle = map[int][]int64{}
	}
	if places := s.idle[len(words)]; len(places) > 0 {
		at = places[len(places)-1]
		s.idle[len(words)] = places[:len(places)-1]
	} else {
		at = s.end
		s.end += int64(len(words)) * 8
	}
	_, err = s.f.WriteAt(arrow.Uint64Traits.CastToBytes(words), at)
	return at, err
}

func (s *scratch) get(at int64, words []uint64) error {
	_, err := s.f.ReadAt(arrow.Uint64Traits.CastToBytes(words), at)
	return err
}

func (s *scratch) free(at int64, words int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle[words] = append(s.idle[words], at)
}

func (s *scratch) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		return nil
	}
	err := s.f.Close()
	_ = os.Remove(s.f.Name()) // it mostly is gone already
	s.f = nil
	return err
}
