package parquet

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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
		if hasCommits(found) {
			return s.headLost()
		}
		return nil
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
	s.abortUploads(ctx, s.bucket.unfinishedUploads(ctx), m.Sequence, func(key string) bool {
		return slices.ContainsFunc(s.folders(m), func(folder string) bool { return strings.HasPrefix(key, folder) })
	})
	if err := s.bucket.removeAll(ctx, old); err != nil {
		s.bucket.log.Warn("cannot remove outdated files", "folder", s.where(), "error", err)
	}
	return nil
}

// headLost returns the error for a head table that has files but is not in the catalog. If sources share the tables, the
// user must drop the tables: their snapshots have numbers that the commits of the reloaded stream would use again.
func (s *tableStore) headLost() error {
	namespace, name := s.parent.catalog.Identifier(HeadTable(s.stream))
	folder, again := s.bucket.Location(s.folder(load.State.Name)), "to load the stream again, "
	if s.source != "" {
		again = "to load the stream again for all sources, drop the tables with the property penstock.stream=" + s.stream + " from the catalog and "
	}
	return &load.ForeignChange{Table: namespace + "." + name, Diff: []string{
		"the catalog has lost it: register it again with the newest file in " + folder + "/metadata, or, " + again + "remove the folder " + folder}}
}

// list returns the files in the folders of the stream, with their sizes.
func (s *tableStore) list(ctx context.Context, m *manifest) (map[string]int64, error) {
	var mu sync.Mutex
	found := map[string]int64{}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(lookupLimit)
	for _, folder := range s.folders(m) {
		work.Go(func() error {
			return s.bucket.o.List(ctx, folder, 0, func(key string, size int64) bool {
				mu.Lock()
				defer mu.Unlock()
				found[key] = size
				return true
			})
		})
	}
	return found, work.Wait()
}

// folders returns the folders with the files of the present tables, and the folder of the manifests. The files of dropped
// tables are never removed. If there is no commit, it returns only the folder of the head table, whose files show whether
// the catalog has lost this table.
func (s *tableStore) folders(m *manifest) (out []string) {
	if m == nil {
		m = &manifest{Tables: []*table{{Folder: s.folder(load.State.Name)}}}
	}
	for _, t := range m.Tables {
		if s.source == "" {
			out = append(out, s.bucket.prefix+t.Folder+"/")
		} else {
			out = append(out, s.dir(t)+"/")
		}
	}
	manifests := s.bucket.prefix + s.manifestFolder() + "/"
	if slices.ContainsFunc(out, func(folder string) bool { return strings.HasPrefix(manifests, folder) }) {
		return out
	}
	return append(out, manifests)
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
		err := t.o.List(ctx, t.prefix+folder+"/metadata/", 0, func(key string, _ int64) bool {
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
