package schemas

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

func TestViewsLoad(t *testing.T) {
	views, err := LoadViews()
	require.NoError(t, err)
	cat, err := Load()
	require.NoError(t, err)
	tables := map[string]bool{}
	for _, s := range cat.Streams() {
		tables[s.Table.Name] = s.Readable()
	}
	seen := map[string]bool{}
	for _, v := range views {
		require.False(t, seen[v.Name] || tables[v.Name], "%s is taken", v.Name)
		seen[v.Name] = true
		for table := range v.Needs {
			require.True(t, tables[table], "%s needs %s, which no stream fills", v.Name, table)
		}
	}
	for _, name := range []string{"receivables_ageing", "pipeline_by_stage", "ticket_backlog", "head_count"} {
		require.True(t, seen[name], name)
	}
}

func TestViewsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no title":      "needs: {t: {a: any}}\nsql: SELECT a FROM {t}",
		"unknown key":   "title: x\nneed: {t: {a: any}}\nsql: SELECT a FROM {t}",
		"unnamed table": "title: x\nneeds: {t: {a: any}}\nsql: SELECT a FROM {t} JOIN {u} USING (a)",
		"unused table":  "title: x\nneeds: {t: {a: any}, u: {a: any}}\nsql: SELECT a FROM {t}",
		"unknown kind":  "title: x\nneeds: {t: {a: money}}\nsql: SELECT a FROM {t}",
	} {
		_, err := loadViews(fstest.MapFS{"views/v.yaml": {Data: []byte(text)}})
		require.ErrorContains(t, err, "views/v.yaml: ", name)
	}
}

func TestViewLacks(t *testing.T) {
	v := View{Needs: map[string]map[string]Kind{
		"orders": {"id": KindAny, "total": KindNumber, "due": KindDate}, "customers": {"id": KindAny},
	}}
	orders := Table{Name: "orders", Columns: arrow.NewSchema([]arrow.Field{Field("id", Int64, "/id"), Field("total", Text, "/total")}, nil)}
	require.Equal(t, []string{"column orders.due", "column orders.total of kind number (it is text)", "table customers"},
		v.Lacks(map[string]Table{"orders": orders}))
}

func TestViewQuery(t *testing.T) {
	v := View{SQL: "SELECT a FROM {t} x", Needs: map[string]map[string]Kind{"t": {"b": KindAny, "a": KindAny}}}
	for mode, want := range map[Mode]string{
		Merge:   `SELECT a FROM (SELECT "a", "b" FROM "t" WHERE "_penstock_deleted_at" IS NULL) x`,
		Replace: `SELECT a FROM (SELECT "a", "b" FROM "t" WHERE "_penstock_deleted_at" IS NULL) x`,
		History: `SELECT a FROM (SELECT "a", "b" FROM "t" WHERE "_penstock_valid_to" IS NULL) x`,
		Append: `SELECT a FROM (SELECT "a", "b" FROM (SELECT "a", "b", row_number() OVER (PARTITION BY "id" ` +
			`ORDER BY "_penstock_run" DESC, "_penstock_synced_at" DESC) AS penstock_newest FROM "t") v WHERE penstock_newest = 1) x`,
	} {
		require.Equal(t, want, v.Query("", map[string]Table{"t": {Name: "t", Key: []string{"id"}, Mode: mode}}), mode)
	}
}

func TestViewQueryShared(t *testing.T) {
	v := View{SQL: "SELECT a FROM {t} x", Needs: map[string]map[string]Kind{"t": {"a": KindAny}}}
	columns := arrow.NewSchema([]arrow.Field{Field(ColSource, Text, ""), Field("a", Text, "/a")}, nil)
	for mode, rows := range map[Mode]string{
		Merge: `"t" WHERE "_penstock_deleted_at" IS NULL`,
		Append: `(SELECT "_penstock_source", "a", row_number() OVER (PARTITION BY "_penstock_source", "id" ` +
			`ORDER BY "_penstock_run" DESC, "_penstock_synced_at" DESC) AS penstock_newest FROM "t") v WHERE penstock_newest = 1`,
	} {
		want := `SELECT * FROM (SELECT DISTINCT "_penstock_source" FROM "t") penstock_of CROSS JOIN LATERAL (SELECT a FROM (SELECT "a" FROM ` +
			rows + ` AND "_penstock_source" = penstock_of."_penstock_source") x) penstock_one`
		require.Equal(t, want, v.Query("", map[string]Table{"t": {Name: "t", Key: []string{"id"}, Columns: columns, Mode: mode}}), mode)
		want = strings.ReplaceAll(want, `"t"`, `"a""b"."t"`)
		require.Equal(t, want, v.Query(`a"b`, map[string]Table{"t": {Name: "t", Key: []string{"id"}, Columns: columns, Mode: mode}}), mode)
	}
}
