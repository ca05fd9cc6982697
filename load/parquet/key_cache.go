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

// keyCache caches the keys of a stream's rows, in one list per file: see [file.version]. So a pass of many transactions reads the key
// columns of each file only once. If the long lists in memory have more than recentRows rows, the oldest lists are
// evicted, because most passes visit the files in order. If an evicted list is needed again, it is kept in a temporary
// file from then on: see [scratch]. Invariant 6
type keyCache struct {
	lists   map[string]*keylist
	recent  []string
	rows    int
	evicted map[string]bool
	scratch *scratch
}

// keylist has three words for each row: two for the fingerprint of the row's key, and one for its mark (see
// [markOf]). A long list may be in the lake's scratch file.
type keylist struct {
	rows    int
	words   []uint64 // nil: the words are in the scratch file
	scratch *scratch
	at      int64
}

const (
	wordsRow   = 3
	shortList  = 4 << 10   // a list of up to this many rows always stays in memory
	recentRows = 256 << 10 // maximum rows of all long lists in memory; the latest list stays, even if it is longer
	chunkRows  = 8 << 10   // number of rows that are searched at once
	deadMark   = uint64(1)
	wordsBytes = 8 * wordsRow
)

// markOf returns 63 bits of the hash of a row, and one bit that is set if the row is a tombstone or has ended.
func markOf(hash string, dead bool) uint64 {
	m := xxh3.HashString(hash) << 1
	if dead {
		m |= deadMark
	}
	return m
}

func (k *keyCache) of(ctx context.Context, t *table, f *file) (*keylist, error) {
	if list := k.lists[f.version()]; list != nil {
		return list, nil
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
	return k.keep(f, words)
}

// markAt returns the mark of row i. The first column in b is the hash, and the second is the column that is null in
// current rows. If the table does not have one of these columns, b does not have it either.
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

func (k *keyCache) keep(f *file, words []uint64) (*keylist, error) {
	list, name := &keylist{rows: len(words) / wordsRow, words: words}, f.version()
	switch {
	case list.rows <= shortList:
	case k.evicted[name]:
		var err error
		if list.at, err = k.scratch.put(words); err != nil {
			return nil, fmt.Errorf("write keys to the scratch file: %w", err)
		}
		list.scratch, list.words = k.scratch, nil
	default:
		k.recent, k.rows = append(k.recent, name), k.rows+list.rows
	}
	k.lists[name] = list
	for k.rows > recentRows && len(k.recent) > 1 {
		old := k.recent[0]
		k.drop(old)
		k.evicted[old] = true
	}
	return list, nil
}

// without keeps the list of a file that has lost some rows, if the list of the file with these rows is known.
func (k *keyCache) without(old, f *file, removed map[uint32]bool) error {
	list := k.lists[old.version()]
	if list == nil {
		return nil
	}
	words, buf := make([]uint64, 0, wordsRow*f.Rows), make([]uint64, chunkRows*wordsRow)
	for first := 0; first < list.rows; first += chunkRows {
		some, err := list.chunk(first, buf)
		if err != nil {
			return fmt.Errorf("read keys from the scratch file: %w", err)
		}
		for i := range len(some) / wordsRow {
			if !removed[uint32(first+i)] {
				words = append(words, some[i*wordsRow:(i+1)*wordsRow]...)
			}
		}
	}
	if list.words == nil {
		k.evicted[f.version()] = true
	}
	_, err := k.keep(f, words)
	return err
}

func (k *keyCache) drop(name string) {
	list := k.lists[name]
	if i := slices.Index(k.recent, name); i >= 0 {
		k.recent, k.rows = slices.Delete(k.recent, i, i+1), k.rows-list.rows
	}
	list.free()
	delete(k.lists, name)
}

func (k *keylist) chunk(first int, buf []uint64) ([]uint64, error) {
	last := min(k.rows, first+chunkRows)
	if k.words != nil {
		return k.words[first*wordsRow : last*wordsRow], nil
	}
	buf = buf[:(last-first)*wordsRow]
	return buf, k.scratch.get(k.at+int64(first)*wordsBytes, buf)
}

func (k *keyCache) prune(m *manifest) {
	kept := map[string]bool{}
	if m != nil {
		for _, s := range m.Segments {
			if f := s.root(); f != nil {
				kept[f.version()] = true
			}
		}
	}
	for name := range k.lists {
		if !kept[name] {
			k.drop(name)
		}
	}
	maps.DeleteFunc(k.evicted, func(name string, _ bool) bool { return !kept[name] })
}

func (k *keylist) free() {
	if k.scratch != nil {
		k.scratch.free(k.at, k.rows*wordsRow)
	}
}

// scratch is an unnamed temporary file, which disappears with the process.
type scratch struct {
	dir string

	mu   sync.Mutex
	f    *os.File
	end  int64
	idle map[int][]int64 // offsets of free ranges, by the length of the range in words
}

func (s *scratch) put(words []uint64) (at int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		if s.f, err = os.CreateTemp(s.dir, "penstock-keys-"); err != nil {
			return 0, err
		}
		_ = os.Remove(s.f.Name()) // if the system cannot remove an open file, close removes it
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
	_ = os.Remove(s.f.Name())
	s.f = nil
	return err
}
