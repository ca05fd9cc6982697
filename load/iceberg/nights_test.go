//go:build iceberg && unix

package iceberg

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// nightly is a source whose records change. Each night a pass reads all of them.
type nightly struct {
	lake   *parquet.Lake
	random *rand.Rand
	rows   []int // the version of each record; 0: the record was deleted
	nights int
	at     state.Cursor
}

var nightColumns = schemas.Table{Name: "contacts", Key: []string{"id"}, Mode: schemas.Replace, Columns: arrow.NewSchema(append([]arrow.Field{
	schemas.Field("id", schemas.Int64, "/id"), schemas.Field("name", schemas.Text, "/name"), schemas.Field("score", schemas.Int64, "/score"),
}, own...), nil)}

// nightPages is the number of commits of a pass.
const nightPages = 4

// night changes 1 % of the records, deletes 0.2 %, adds 0.3 %, and loads all of them.
func (s *nightly) night(t *testing.T) {
	t.Helper()
	n := len(s.rows)
	for range n / 100 {
		if i := s.random.IntN(n); s.rows[i] > 0 {
			s.rows[i]++
		}
	}
	for range n / 500 {
		s.rows[s.random.IntN(n)] = 0
	}
	for range n * 3 / 1000 {
		s.rows = append(s.rows, 1)
	}
	s.nights++
	now := time.Date(2026, 11, 1, 2, 0, 0, 0, time.UTC).AddDate(0, 0, s.nights)
	page := len(s.rows)/nightPages + 1
	for first := 0; first < len(s.rows); first += page {
		last := min(first+page, len(s.rows))
		now = now.Add(time.Minute)
		s.commit(t, now, first, last)
	}
}

// commit loads the records from first up to last. With the last record, the pass is complete.
func (s *nightly) commit(t *testing.T, now time.Time, first, last int) {
	t.Helper()
	var rows [][]any
	for id := first; id < last; id++ {
		if version := s.rows[id]; version > 0 {
			name := fmt.Sprintf("%016x %016x", uint64(id*version)*0x9e3779b97f4a7c15, uint64(id+version)*0xbf58476d1ce4e5b9)
			rows = append(rows, []any{id, name, version, now, run(s.nights), fmt.Sprint(id, ".", version), nil, "poll", id - first})
		}
	}
	x, err := s.lake.Begin(t.Context(), key, s.at, load.Pass{Run: run(s.nights), Whole: true, Now: func() time.Time { return now }})
	require.NoError(t, err)
	defer func() { _ = x.Rollback() }()
	b, err := load.Rows(nightColumns, rows...)
	require.NoError(t, err)
	defer b.Release()
	require.NoError(t, x.Write(t.Context(), nightColumns, b))
	if last == len(s.rows) {
		_, err := x.Apply(t.Context(), load.Sweep{Table: nightColumns.Name, Delete: true})
		require.NoError(t, err)
	}
	s.at = state.Cursor(fmt.Sprint(s.nights, " ", last))
	require.NoError(t, x.Commit(t.Context(), s.at))
}

// footprint is what a table takes.
type footprint struct {
	snapshots, manifests, data, deletes int   // manifests, data files and delete files of the current snapshot
	metadata                            int64 // bytes of the current metadata file
	files                               int   // files in the table's folder
	metadataFiles                       int
	bytes                               int64
}

func footprintOf(t *testing.T, o Options, name string) (out footprint) {
	t.Helper()
	tbl := metadata(t, o, name)
	out.snapshots = len(tbl.Metadata().Snapshots())
	from, err := tbl.FS(t.Context())
	require.NoError(t, err)
	list, err := tbl.CurrentSnapshot().Manifests(from)
	require.NoError(t, err)
	out.manifests = len(list)
	all, err := tbl.Scan().PlanFiles(t.Context())
	require.NoError(t, err)
	out.data = len(all)
	for _, f := range all {
		out.deletes += len(f.DeleteFiles)
	}
	current := filepath.Base(tbl.MetadataLocation())
	folder := strings.TrimPrefix(tbl.Location(), "file://")
	require.NoError(t, filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		i, err := e.Info()
		if err != nil {
			return err
		}
		out.files, out.bytes = out.files+1, out.bytes+i.Size()
		if strings.HasSuffix(path, ".metadata.json") {
			out.metadataFiles++
		}
		if filepath.Base(path) == current {
			out.metadata = i.Size()
		}
		return nil
	}))
	return out
}

// Nights of changes and deletions must not make the metadata grow: neither the files of a table, nor its snapshots, nor
// the files that a reader opens. Invariant 6
func TestNights(t *testing.T) {
	o := warehouse(t)
	o.Deletes = parquet.DeleteRule{MinSize: 1 << 10}
	s := &nightly{lake: open(t, o), random: rand.New(rand.NewPCG(1, 2)), rows: slices.Repeat([]int{1}, 20_000)}
	nights, full := 24, 16 // after night `full`, the log of metadata files is full
	if testing.Short() {
		nights, s.rows = 18, s.rows[:1000]
	}
	marked := 0
	largest := map[string]int64{}
	for range nights {
		s.night(t)
		for _, name := range []string{"contacts", "_penstock_state"} {
			f := footprintOf(t, o, name)
			t.Logf("night %d: %s %+v", s.nights, name, f)
			marked += f.deletes
			require.LessOrEqual(t, f.snapshots, nightPages+1) // those of a day
			require.LessOrEqual(t, f.manifests, 2*manyManifests)
			require.LessOrEqual(t, f.data, 64)
			require.LessOrEqual(t, f.deletes, f.data)
			require.LessOrEqual(t, f.metadataFiles, 50+2*nightPages)
			require.Less(t, f.files, 400)
			if s.nights <= full {
				largest[name] = max(largest[name], f.metadata)
			}
			require.LessOrEqual(t, f.metadata, largest[name]*11/10, "night %d: %s", s.nights, name)
		}
	}
	require.Positive(t, marked, "no commit has used delete files")
	alive := 0
	for _, version := range s.rows {
		alive += min(version, 1)
	}
	require.Len(t, read(t, o, "contacts"), alive)
}
