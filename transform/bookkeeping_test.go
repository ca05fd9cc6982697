package transform

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func lines(a arrow.Array) string {
	var cells []string
	for row := range a.Len() {
		cells = append(cells, arrowCell(a, row))
	}
	return strings.Join(cells, " ")
}

func mustMap(t *testing.T, s schemas.Stream, pages ...string) mapped {
	out, err := mapPages(t, s, pages...)
	require.NoError(t, err)
	t.Cleanup(out.release)
	return out
}

func columnNames(b *TableBatch) (names []string) {
	for _, f := range b.Batch.Schema().Fields() {
		names = append(names, f.Name)
	}
	return names
}

func TestOwnColumns(t *testing.T) {
	out := mustMap(t, keyedStream, `[{"id":7,"i":[{"a":1,"t":[{"n":1},{"n":2}]},{"t":[{"n":3}]}]},{"id":8},{"id":9,"i":[{"t":[{"n":4}]}]}]`)
	root, items, taxes := out.table(""), out.table("/i"), out.table("/i/t")
	require.Equal(t, []string{"id", "_penstock_synced_at", "_penstock_run", "_penstock_hash", "_penstock_deleted_at", "_penstock_via",
		"_penstock_ordinal"}, columnNames(root))
	require.Equal(t, []string{"a", "_penstock_synced_at", "_penstock_run", "_penstock_hash", "_penstock_deleted_at", "_penstock_via",
		"_penstock_parent", "_penstock_index", "_penstock_ordinal"}, columnNames(items))
	require.Equal(t, []string{"n", "_penstock_synced_at", "_penstock_run", "_penstock_hash", "_penstock_deleted_at", "_penstock_via",
		"_penstock_parent", "_penstock_index", "_penstock_root", "_penstock_ordinal"}, columnNames(taxes))

	require.Equal(t, "t", root.Table.Name)
	require.Equal(t, "t__i", items.Table.Name)
	require.Equal(t, "t__i__t", taxes.Table.Name)
	require.Equal(t, "7 7 9", lines(items.own(schemas.ColParent)))
	require.Equal(t, "0 1 0", lines(items.own(schemas.ColIndex)))
	require.Equal(t, `"7/0" "7/0" "7/1" "9/0"`, lines(taxes.own(schemas.ColParent)))
	require.Equal(t, "0 1 0 0", lines(taxes.own(schemas.ColIndex)))
	require.Equal(t, "7 7 7 9", lines(taxes.own(schemas.ColRoot)))
	require.Equal(t, "0 0 0 2", lines(taxes.own(schemas.ColOrdinal)))
	require.Equal(t, "0 1 2", lines(root.own(schemas.ColOrdinal)))

	hashes := strings.Fields(lines(root.own(schemas.ColHash)))
	require.Len(t, hashes[0], hashSize+2)
	require.Equal(t, strings.Join([]string{hashes[0], hashes[0], hashes[2]}, " "), lines(items.own(schemas.ColHash)))
	require.Equal(t, "null null null", lines(root.own(schemas.ColDeletedAt)))
	require.Equal(t, `"poll" "poll" "poll"`, lines(root.own(schemas.ColVia)))
	require.Equal(t, `"0123456789ab" "0123456789ab" "0123456789ab"`, lines(root.own(schemas.ColRun)))
	require.Equal(t, "2025-10-09T08:53:20Z", arrowCell(root.own(schemas.ColSyncedAt), 2))
}

func TestParentKey(t *testing.T) {
	child := func(t *testing.T, key []string, page string) (arrow.Array, *TableBatch) {
		s := schemas.Stream{Table: schemas.Table{Name: "t", Key: key}, Name: "m.t"}
		out := mustMap(t, s, page)
		return out.table("/i").own(schemas.ColParent), out.table("")
	}
	t.Run("a key of one column keeps its type", func(t *testing.T) {
		a, _ := child(t, []string{"id"}, `[{"i":[{"a":1}],"id":"x"},{"id":2,"i":[{"a":1}]}]`)
		require.Equal(t, `"x" "2"`, lines(a))
		a, _ = child(t, []string{"id"}, `[{"i":[{"a":1}],"id":true},{"id":false,"i":[{"a":1},{}]}]`)
		require.Equal(t, `true false false`, lines(a))
		a, _ = child(t, []string{"id"}, `[{"i":[{"a":1}],"id":"2026-11-20"}]`)
		require.Equal(t, arrow.DATE32, a.DataType().ID())
		a, _ = child(t, []string{"id"}, `[{"i":[{"a":1}],"id":18446744073709551615}]`)
		require.Equal(t, "18446744073709551615", lines(a))
	})
	t.Run("a key of several columns becomes a JSON array", func(t *testing.T) {
		a, _ := child(t, []string{"a", "b__c", "d"}, `[{"a":1,"b":{"c":"x\"y"},"d":"2026-11-20","i":[{"a":1}]}]`)
		require.Equal(t, `"[1,\"x\\\"y\",\"2026-11-20\"]"`, lines(a))
	})
	t.Run("a key of several columns of any type", func(t *testing.T) {
		a, _ := child(t, []string{"a", "b", "c", "d", "e"},
			`[{"a":1.50,"b":true,"c":"2026-11-20T10:00:00.5Z","d":1e39,"e":18446744073709551615,"i":[{}]}]`)
		require.Equal(t, `"[1.50,true,\"2026-11-20T10:00:00.5Z\",1e+39,18446744073709551615]"`, lines(a))
	})
	t.Run("a key that is JSON text", func(t *testing.T) {
		s := schemas.Stream{Table: schemas.Table{Name: "t", Key: []string{"g"}}, Types: map[string]string{"g": "json"}}
		out := mustMap(t, s, `[{"g":"k","i":[{"t":[{}]}]},{"g":7,"i":[{}]}]`)
		require.Equal(t, `"\"k\"" "7"`, lines(out.table("/i").own(schemas.ColParent)))
		require.Equal(t, `"\"k\"/0"`, lines(out.table("/i/t").own(schemas.ColParent)))
	})
	t.Run("a record without a key is identified by its hash and ordinal", func(t *testing.T) {
		a, root := child(t, nil, `[{"x":1},{"i":[{"a":1}]}]`)
		hash := strings.Trim(arrowCell(root.own(schemas.ColHash), 1), `"`)
		require.Equal(t, fmt.Sprintf(`"%s-1"`, hash), lines(a))
	})
	t.Run("a key with a column of the context", func(t *testing.T) {
		a, _ := child(t, []string{"id", "_context__stage__id"}, `[{"id":5,"i":[{}],"_context":{"stage":{"id":3,"name":"New"}}}]`)
		require.Equal(t, `"[5,3]"`, lines(a))
	})
}

func TestHash(t *testing.T) {
	s := schemas.Stream{Table: schemas.Table{Name: "t"}, Volatile: []string{"views"}}
	hash := func(record string) string {
		return arrowCell(mustMap(t, s, "["+record+"]").table("").own(schemas.ColHash), 0)
	}
	base := hash(`{"a":1,"b":{"c":[1,{"d":2}]}}`)
	require.Equal(t, base, hash(`{"b":{"c":[1,{"d":2}]},"a":1}`), "order of members")
	require.Equal(t, base, hash(`{"a":1,"views":7,"b":{"c":[1,{"d":2}]}}`), "volatile field")
	seen := map[string]string{}
	for _, r := range []string{`{}`, `{"a":1}`, `{"a":2}`, `{"a":1,"b":null}`, `{"a":"1"}`, `{"A":1}`, `{"a":1,"b":2}`, `{"a":2,"b":1}`,
		`{"a":1,"b":{"c":[1,{"d":3}]}}`, `1`, `"1"`, `{"a":1.0}`} {
		h := hash(r)
		require.NotEqual(t, base, h)
		require.Empty(t, seen[h], "%s and %s", r, seen[h])
		seen[h] = r
	}
}

func TestKnownTables(t *testing.T) {
	first := mustMap(t, keyedStream, `[{"id":1,"Name":"x","name":"y","a":1,"i":[{"p":1.5}]}]`)
	known := []schemas.Table{first.table("").Table, first.table("/i").Table}

	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	m := NewMapper(keyedStream, testStamp, known)
	m.SetAllocator(mem)
	require.Equal(t, known[0].Columns.String(), m.Tables()[0].Columns.String())
	// The members have another order, some are missing, and some types differ.
	require.NoError(t, appendAll(m, []byte(`[{"name":"q","id":"k"},{"Name":"r","id":2,"a":null,"i":[{"p":2}]}]`)))
	batches, rejects := m.Flush()
	require.Empty(t, rejects)
	second := mapped{batches: batches}
	names := columnNames(second.table(""))
	require.Equal(t, columnNames(first.table("")), names)
	a, typ := second.table("").column("/id")
	require.Equal(t, schemas.Text, typ)
	require.Equal(t, `"k" "2"`, lines(a))
	a, _ = second.table("").column("/name")
	require.Equal(t, `"q" null`, lines(a))
	a, _ = second.table("").column("/a")
	require.Equal(t, `null null`, lines(a))
	_, typ = second.table("/i").column("/p")
	require.Equal(t, "decimal(20, 1)", typ.String())
	second.release()
	m.Close()
	mem.AssertSize(t, 0)
}

func TestKnownColumnWithoutValues(t *testing.T) {
	var fields []arrow.Field
	for name, typ := range map[string]arrow.DataType{"s": schemas.Text, "l": arrow.ListOf(schemas.Text), "b": schemas.Bool,
		"d": schemas.Date, "n": schemas.Int64, "j": schemas.JSON, "f": schemas.Float64} {
		fields = append(fields, schemas.Field(name, typ, "/"+name))
	}
	m := NewMapper(anyStream, testStamp, []schemas.Table{{Name: "t", Columns: arrow.NewSchema(fields, nil)}})
	require.NoError(t, appendAll(m, []byte(`[{},{"s":null}]`)))
	batches, _ := m.Flush()
	for i := range fields {
		require.Equal(t, "null null", lines(batches[0].Batch.Column(i)))
	}
	mapped{batches: batches}.release()
}

func TestForeignColumnKeepsItsName(t *testing.T) {
	mine := arrow.Field{Name: "note", Type: arrow.PrimitiveTypes.Int32}
	known := []schemas.Table{{Name: "t", Columns: arrow.NewSchema([]arrow.Field{mine, schemas.Field(schemas.ColRun, schemas.Text, "")}, nil)}}
	m := NewMapper(anyStream, testStamp, known)
	defer m.Close()
	require.NoError(t, appendAll(m, []byte(`[{"note":"x"}]`)))
	fields := m.Tables()[0].Columns.Fields()
	require.Equal(t, "/note", schemas.Source(fields[0]))
	require.NotEqual(t, "note", fields[0].Name)
}

func TestEmptyStreamHasDeclaredColumns(t *testing.T) {
	m := NewMapper(typedStream, testStamp, nil)
	tables := m.Tables()
	require.Len(t, tables, 1)
	require.Equal(t, "a", tables[0].Columns.Field(0).Name)
	require.Equal(t, "decimal(16, 2)", tables[0].Columns.Field(0).Type.String())
	require.Equal(t, 8+6, tables[0].Columns.NumFields())
	require.NoError(t, appendAll(m, []byte(`[]`)))
	batches, rejects := m.Flush()
	require.Empty(t, batches)
	require.Empty(t, rejects)
}

func TestTypesOutliveBatches(t *testing.T) {
	m := NewMapper(anyStream, testStamp, nil)
	var types []string
	for _, page := range []string{`[{"a":1},{"x":[]}]`, `[{"a":2.5}]`, `[{"a":3,"x":[1]}]`, `[{"a":"s"}]`, `[{"a":4}]`} {
		require.NoError(t, appendAll(m, []byte(page)))
		batches, _ := m.Flush()
		types = append(types, batches[0].Batch.Column(0).DataType().String())
		mapped{batches: batches}.release()
	}
	require.Equal(t, []string{"int64", "decimal(20, 1)", "decimal(20, 1)", "utf8", "utf8"}, types)
	m.Close()
}

func TestCountersOutliveAFlush(t *testing.T) {
	m := NewMapper(schemas.Stream{Name: "a.b", Table: schemas.Table{Name: "a_b", Key: []string{"id"}}}, Stamp{Run: "r", Via: "poll"}, nil)
	defer m.Close()
	var ordinals []int64
	for i := range 3 {
		require.NoError(t, appendAll(m, []byte(`[{"id":1},{"id":null},{"id":2}]`)))
		batches, rejects := m.Flush()
		require.Len(t, rejects, 1)
		require.EqualValues(t, 3*i+1, rejects[0].Ordinal)
		b := batches[0].Batch
		ordinals = append(ordinals, b.Column(b.Schema().FieldIndices(schemas.ColOrdinal)[0]).(*array.Int64).Int64Values()...)
		b.Release()
	}
	require.EqualValues(t, 9, m.Fetched())
	require.EqualValues(t, 3, m.Rejected())
	require.Equal(t, []int64{0, 2, 3, 5, 6, 8}, ordinals)
}

func TestModeReachesEveryBatch(t *testing.T) {
	s := keyedStream
	s.Mode = schemas.History
	s.Rules.Rename = map[string]string{"n": "number"}
	out := shape(t, s, nil, `[{"id":1,"n":1,"i":[{"a":1,"t":[{"b":1}]}]}]`)
	require.Len(t, out.batches, 3)
	for _, b := range out.batches {
		require.Equal(t, schemas.History, b.Table.Mode, b.Table.Name)
	}
}
