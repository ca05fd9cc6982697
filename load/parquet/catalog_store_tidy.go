package parquet

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load"
)

// tidy removes a file under two conditions: the number in its name is not above the number of the oldest kept commit,
// and neither this commit nor the catalog names the file. See [bucketStore.tidy].
func (s *tableStore) tidy(ctx context.Context, m *manifest) error {
	found, err := s.list(ctx, m)
	if err != nil {
		return err
	}
	s.remember(found)
	if m == nil {
		return s.orphaned(found)
	}
	old, err := s.outdated(ctx, m, found)
	if err != nil {
		return err
	}
	if s.source != "" {
		if err := s.parent.tidyTables(ctx, s.stream); err != nil {
			s.bucket.log.Warn("cannot remove outdated files of shared tables", "stream", s.stream, "error", err)
		}
	}
	s.abortUploads(ctx, s.bucket.unfinishedUploads(ctx), m.Sequence)
	if err := s.bucket.removeAll(ctx, old); err != nil {
		s.bucket.log.Warn("cannot remove outdated files", "folder", s.where(), "error", err)
	}
	return nil
}

// list returns the files of the stream with their sizes. If the keys are for one table at a time, it returns only the
// files of the present tables. The files of dropped tables are then never removed. If there is no commit, it returns the
// files of the head table, which show whether the catalog has lost this table.
func (s *tableStore) list(ctx context.Context, m *manifest) (map[string]int64, error) {
	found := map[string]int64{}
	folders := []string{s.key + "/"}
	if s.bucket.vended {
		folders = []string{s.key + "/" + load.State.Name + "/"}
		if m != nil {
			folders = nil
			for _, t := range m.Tables {
				folders = append(folders, s.key+"/"+t.Folder+"/")
			}
		}
	}
	for _, folder := range folders {
		err := s.bucket.o.List(ctx, folder, 0, func(key string, size int64) bool { found[key] = size; return true })
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// tidyTables removes outdated files that the catalog has written for shared tables. The commits of all sources are
// numbered together, and the name of a file begins with the number of its commit. A commit in progress has a higher
// number than all finished commits, so its files are kept.
func (t *catalogStore) tidyTables(ctx context.Context, stream string) error {
	if !t.tidyDue(stream) {
		return nil
	}
	named, err := t.catalog.Named(ctx, stream)
	if err != nil {
		return err
	}
	var old []string
	for folder, names := range named {
		wanted := map[string]bool{}
		for _, name := range names.Files {
			wanted[t.prefix+name] = true
		}
		err := t.o.List(ctx, t.prefix+folder+"/", 0, func(key string, _ int64) bool {
			if n, ok := sequenceIn(key); ok && n <= names.Upto && !wanted[key] {
				old = append(old, key)
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	return t.removeAll(ctx, old)
}

// tidyEvery is the shortest time between two calls of tidyTables for a stream. Without it, each of a thousand sources
// would list the same files.
const tidyEvery = time.Minute

func (t *catalogStore) tidyDue(stream string) bool {
	t.tidyMu.Lock()
	defer t.tidyMu.Unlock()
	if last, ok := t.tidied[stream]; ok && time.Since(last) < tidyEvery {
		return false
	}
	t.tidied[stream] = time.Now()
	return true
}

func (s *tableStore) outdated(ctx context.Context, m *manifest, found map[string]int64) ([]string, error) {
	wanted := map[string]bool{s.bucket.prefix + m.name: true}
	named, err := s.parent.catalog.Named(ctx, s.stream)
	if err != nil {
		return nil, err
	}
	for _, names := range named {
		for _, name := range names.Files {
			wanted[s.bucket.prefix+name] = true
		}
	}
	oldest := m
	for i, g := range m.Kept {
		wanted[s.bucket.prefix+g.Name] = true
		if i == 0 {
			if oldest, err = s.readNamed(ctx, g.Name); gone(err) {
				oldest = nil // it is unknown which files this manifest named, so no files are removed
			} else if err != nil {
				return nil, err
			}
		}
	}
	if oldest == nil {
		return nil, nil
	}
	out := slices.DeleteFunc(s.unnamed(oldest, found), func(key string) bool { return wanted[key] })
	for key := range found {
		if n, ok := sequenceIn(key); ok && n <= oldest.Sequence && !strings.HasSuffix(key, suffix) && !wanted[key] {
			out = append(out, key)
		}
	}
	return out, nil
}

func sequenceIn(key string) (n int64, ok bool) {
	_, err := fmt.Sscanf(path.Base(key), "%08d-", &n)
	return n, err == nil && strings.Index(path.Base(key), "-") >= 8 // other programs write fewer digits
}
