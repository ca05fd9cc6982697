package parquet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

var stream = state.Key{Pipeline: "nightly", Stream: "crm.leads"}

func tableOf(name string, key []string, columns ...arrow.Field) schemas.Table {
	for _, n := range []string{schemas.ColSyncedAt, schemas.ColDeletedAt} {
		columns = append(columns, schemas.Field(n, schemas.Timestamp, ""))
	}
	for _, n := range []string{schemas.ColRun, schemas.ColHash, schemas.ColVia} {
		columns = append(columns, schemas.Field(n, schemas.Text, ""))
	}
	columns = append(columns, arrow.Field{Name: schemas.ColOrdinal, Type: schemas.Int64})
	return schemas.Table{Name: name, Key: key, Columns: arrow.NewSchema(columns, nil)}
}

var (
	leads = tableOf("crm_leads", []string{"id"}, schemas.Field("id", schemas.Int64, "/id"), schemas.Field("name", schemas.Text, "/name"),
		schemas.Field("on", schemas.Date, "/on"), schemas.Field("batch", schemas.Int64, "/batch"))
	tasks = tableOf("crm_leads__tasks", nil, schemas.Field("title", schemas.Text, "/title"),
		schemas.Field(schemas.ColParent, schemas.Int64, ""), schemas.Field(schemas.ColIndex, schemas.Int64, ""))
)

type lead struct {
	id       int
	name, on string
}

func rowsOf(run string, batch int, records []lead) (roots, children []loadtest.Row) {
	for i, r := range records {
		own := loadtest.Row{
			schemas.ColSyncedAt: "2026-11-20T08:00:00Z", schemas.ColRun: run, schemas.ColHash: r.name, schemas.ColVia: "poll",
			schemas.ColOrdinal: strconv.Itoa(i), "id": strconv.Itoa(r.id), "name": r.name, "batch": strconv.Itoa(batch),
		}
		if r.on != "" {
			own["on"] = r.on
		}
		roots = append(roots, own)
		child := loadtest.Row{schemas.ColParent: strconv.Itoa(r.id), schemas.ColIndex: "0", "title": r.name + "'s"}
		for _, c := range []string{schemas.ColSyncedAt, schemas.ColRun, schemas.ColHash, schemas.ColVia, schemas.ColOrdinal} {
			child[c] = own[c]
		}
		children = append(children, child)
	}
	return roots, children
}

func openLake(t testing.TB, path string, o Options) *Lake {
	t.Helper()
	o.Path = path
	l, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func put(ctx context.Context, t testing.TB, l *Lake, n int, from state.Cursor, records ...lead) (state.Cursor, error) {
	t.Helper()
	run := fmt.Sprintf("run%09d", n)
	x, err := l.Begin(ctx, stream, from, load.Pass{Run: run, Whole: true})
	if err != nil {
		return from, err
	}
	defer func() { _ = x.Rollback() }()
	roots, children := rowsOf(run, n, records)
	for table, rows := range map[*schemas.Table][]loadtest.Row{&leads: roots, &tasks: children} {
		b := loadtest.Batch(t, *table, rows...)
		defer b.Release()
		if err := x.Write(ctx, *table, b); err != nil {
			return from, err
		}
	}
	if _, err := x.Apply(ctx, load.Sweep{Table: leads.Name, Delete: true}); err != nil {
		return from, err
	}
	next := state.Cursor(fmt.Sprintf(`{"n":%d}`, n))
	if err := x.Commit(ctx, next); err != nil {
		return from, err
	}
	return next, nil
}

func must(t testing.TB, l *Lake, n int, from state.Cursor, records ...lead) state.Cursor {
	t.Helper()
	next, err := put(t.Context(), t, l, n, from, records...)
	require.NoError(t, err)
	return next
}

func names(t testing.TB, l *Lake) map[string]bool {
	t.Helper()
	titles := map[string]string{}
	for _, r := range scanned(t, l, tasks.Name) {
		titles[r[schemas.ColParent]] += r["title"]
	}
	out := map[string]bool{}
	for _, r := range scanned(t, l, leads.Name) {
		if _, dead := r[schemas.ColDeletedAt]; !dead {
			word := r["id"] + ":" + r["name"] + ":" + titles[r["id"]]
			require.False(t, out[word], "%s occurs twice", word)
			out[word] = true
		}
	}
	return out
}

func wanted(records ...lead) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		out[fmt.Sprintf("%d:%s:%s's", r.id, r.name, r.name)] = true
	}
	return out
}

func entries(t testing.TB, l *Lake, elem ...string) []string {
	t.Helper()
	all, err := os.ReadDir(filepath.Join(append([]string{l.o.Path, "crm.leads"}, elem...)...))
	require.NoError(t, err)
	var out []string
	for _, e := range all {
		if e.Name() != lockName && e.Name() != lockName+".holder" {
			out = append(out, e.Name())
		}
	}
	return out
}

var (
	before = []lead{{1, "ann", "2026-01-05"}, {2, "bob", "2026-02-01"}, {3, "cid", ""}}
	after  = []lead{{1, "ann", "2026-01-05"}, {2, "bea", "2026-03-01"}, {4, "dan", "2026-03-02"}}
)
