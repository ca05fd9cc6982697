package transform

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func TestRejects(t *testing.T) {
	tests := []struct {
		name   string
		stream schemas.Stream
		page   string
		want   Reject
	}{
		{"duplicate name", keyedStream, `[{"id":1,"a":1,"a":2}]`,
			Reject{Key: "1", Pointer: "/a", Wanted: "one value", Raw: `1, 2`, Reason: reasons[refuseDuplicate]}},
		{"duplicate name in a nested object", keyedStream, `[{"id":1,"a":[{"b":1,"c":[1],"c":{}}]}]`,
			Reject{Key: "1", Pointer: "/a/0/c", Wanted: "one value", Raw: `[1], {}`, Reason: reasons[refuseDuplicate]}},
		{"duplicate key", keyedStream, `[{"id":1,"id":2}]`,
			Reject{Key: "1", Wanted: "record", Raw: `{"id":1,"id":2}`, Reason: reasons[refuseDuplicate], Record: true}},
		{"invalid UTF-8", keyedStream, "[{\"id\":\"k\",\"a\":\"x\xffy\xc3\"}]",
			Reject{Key: `"k"`, Pointer: "/a", Wanted: "text", Raw: `"x\xFFy\xC3"`, Reason: reasons[refuseEncoding]}},
		{"invalid UTF-8 in a list", keyedStream, "[{\"id\":1,\"a\":[\"x\",\"\xff\"]}]",
			Reject{Key: `1`, Pointer: "/a/1", Wanted: "text", Raw: `"\xFF"`, Reason: reasons[refuseEncoding]}},
		{"invalid UTF-8 in a name", keyedStream, "[{\"id\":1,\"a\xff\":7}]",
			Reject{Key: `1`, Pointer: `/a\xFF`, Wanted: "a name that is text", Raw: `7`, Reason: reasons[refuseEncoding]}},
		{"invalid UTF-8 in the key", keyedStream, "[{\"id\":\"\xff\"}]",
			Reject{Key: `"\xFF"`, Wanted: "record", Raw: `{"id":"\xFF"}`, Reason: reasons[refuseEncoding] + notText, Record: true}},
		{"half a surrogate", keyedStream, `[{"id":1,"a":"x\ud83d"}]`,
			Reject{Key: `1`, Pointer: "/a", Wanted: "text", Raw: `"x\ud83d"`, Reason: reasons[refuseEncoding]}},
		{"nested too deep", keyedStream, `[{"id":1,"o":{"a":` + deep(maxLevels) + `}}]`,
			Reject{Key: `1`, Pointer: "/o/a", Wanted: "JSON", Raw: deep(maxLevels), Reason: reasons[refuseDepth]}},
		{"null in a list of objects", keyedStream, `[{"id":1,"a":[null,{"b":1}]}]`,
			Reject{Key: `1`, Pointer: "/a/0", Wanted: "object", Raw: "null", Reason: "null in a list of objects"}},
		{"lone surrogate in JSON text", keyedStream, `[{"id":1,"a":{"1":"\ud800"}}]`,
			Reject{Key: "1", Pointer: "/a/1", Wanted: "text", Raw: `"\ud800"`, Reason: reasons[refuseEncoding]}},
		{"missing key", keyedStream, `[{"a":1}]`,
			Reject{Wanted: "record", Raw: `{"a":1}`, Reason: reasons[refuseKey], Record: true}},
		{"null key", keyedStream, `[{"id":null}]`,
			Reject{Wanted: "record", Raw: `{"id":null}`, Reason: reasons[refuseKey], Record: true}},
		{"negative zero", keyedStream, `[{"id":"k","i":[{"x":1},{"o":{"y":-0.00}}]}]`,
			Reject{Key: `"k"`, Pointer: "/i/1/o/y", Wanted: "decimal(16,2)", Raw: "-0.00", Reason: minusZero}},
		{"negative zero in a list", anyStream, `[{"x":[0,-0]}]`,
			Reject{Pointer: "/x/1", Wanted: "int64", Raw: "-0", Reason: minusZero}},
		{"negative zero in quotes", typedStream, `[{"a":"-0.00"}]`,
			Reject{Pointer: "/a", Wanted: "decimal(16,2)", Raw: `"-0.00"`, Reason: minusZero}},
		{"list of nulls", anyStream, `[{"x":[null, null]},{"x":1}]`,
			Reject{Pointer: "/x", Wanted: "int64", Raw: "[null, null]", Reason: "a list of nulls in a column that is not a list"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := mustMap(t, tt.stream, tt.page)
			tt.want.Stream, tt.want.Stage, tt.want.ID = tt.stream.Name, StageTransform, tt.want.Key
			if tt.want.Key == "" { // the ID is a hash of the content
				require.Regexp(t, `^#.+`, out.rejects[0].ID)
				tt.want.ID = out.rejects[0].ID
			}
			require.Equal(t, []Reject{tt.want}, out.rejects)
			require.Equal(t, out.rejects, mustMap(t, tt.stream, tt.page).rejects, "the same record has the same ID")
		})
	}
}

// The limit applies to the key as JSON.
func TestLongestKey(t *testing.T) {
	longest := strings.Repeat("k", schemas.MaxKeyBytes-len(`""`))
	for _, long := range []string{longest + "k", strings.Repeat(`\u0001`, schemas.MaxKeyBytes/6+1), strings.Repeat("l", 1<<20)} {
		out := mustMap(t, keyedStream, `[{"id":"`+longest+`"},{"id":"`+long+`"},{"id":"x"}]`)
		require.EqualValues(t, 2, out.batches[0].Batch.NumRows())
		require.Len(t, out.rejects, 1)
		r := out.rejects[0]
		require.Contains(t, r.Reason, reasons[refuseLong])
		require.True(t, r.Record)
		require.Less(t, len(r.ID)+len(r.Pointer)+len(r.Key), schemas.MaxKeyBytes)
	}
}

func TestLongPointer(t *testing.T) {
	name := strings.Repeat("n", 1000)
	at := func(last string) string {
		return `{"` + name + `":{"` + name + `":{"` + name + last + `":1,"` + name + last + `":2}}}`
	}
	out := mustMap(t, keyedStream, `[{"id":1,"o":`+at("a")+`},{"id":1,"o":`+at("b")+`}]`)
	require.Len(t, out.rejects, 2)
	for _, r := range out.rejects {
		require.Less(t, len(r.Pointer), schemas.MaxKeyBytes/2)
	}
	require.NotEqual(t, out.rejects[0].Pointer, out.rejects[1].Pointer)
}

// The source may spell the name of a key column differently.
func TestKeyIsFoundByItsColumn(t *testing.T) {
	for _, name := range []string{"id", "ID", "Id", "objectId", "order-no", "KundenNr"} {
		t.Run(name, func(t *testing.T) {
			s := schemas.Stream{Name: "x.things", Table: schemas.Table{Name: "x_things", Key: schemas.KeyColumns([]string{name})}}
			out := mustMap(t, s, `[{"`+name+`":1},{"`+name+`":null,"a":1},{"`+name+`":2,"a":1,"`+name+`":5},{"`+name+`":3}]`)
			require.Equal(t, s.Key, out.batches[0].Table.Key)
			a, _ := out.table("").column("/" + name)
			require.Equal(t, "1 3", lines(a))
			require.Len(t, out.rejects, 2)
			require.Equal(t, reasons[refuseKey], out.rejects[0].Reason)
			require.Equal(t, "2", out.rejects[1].Key)

			before := mustMap(t, s, `[{"`+name+`":7,"`+name+`":8}]`) // no record has had a value in the key column
			require.Equal(t, "7", before.rejects[0].Key)
		})
	}
}

// If the name of a field differs from the name of the key only by an accent, the field does not get the name of the
// key's column.
func TestKeyKeepsItsColumn(t *testing.T) {
	s := schemas.Stream{Name: "x.things", Table: schemas.Table{Name: "x_things", Key: []string{"codigo"}}}
	out := mustMap(t, s, `[{"código":"A","codigo":1},{"código":"B","codigo":2}]`)
	require.Empty(t, out.rejects)
	fields := out.batches[0].Batch.Schema()
	require.True(t, fields.HasField("codigo"))
	require.False(t, fields.HasField("código"), "MySQL ignores the accent")
	a, _ := out.table("").column("/codigo")
	require.Equal(t, "1 2", lines(a))
}

func TestNegativeZeroIsKeptWhereTheColumnIsText(t *testing.T) {
	out := mustMap(t, anyStream, `[{"x":-0},{"x":-0.0}]`, `[{"x":"s"}]`)
	require.Empty(t, out.rejects)
	a, _ := out.table("").column("/x")
	require.Equal(t, `"-0" "-0.0" "s"`, lines(a))
}

func TestHugeRecordIsRejectedAlone(t *testing.T) {
	huge := `{"id":2,"s":"` + strings.Repeat("x", 50<<20) + `"}`
	out := mustMap(t, keyedStream, `[{"id":1},`+huge+`,{"id":3}]`)
	a, _ := out.table("").column("/id")
	require.Equal(t, "1 3", lines(a))
	require.Len(t, out.rejects, 1)
	require.Equal(t, reasons[refuseSize]+notWhole, out.rejects[0].Reason)
	require.Equal(t, int64(1), out.rejects[0].Ordinal)
	require.Equal(t, "2", out.rejects[0].Key)
	require.Len(t, out.rejects[0].Raw, maxRawRecord)
}

func deep(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// If no column can hold a value, the record is still stored, with its other values.
func TestValueIsRejectedAlone(t *testing.T) {
	for _, tt := range []struct {
		name, value, want string // value of column a, beside a value that can be stored
		typ               string
		rejects           int
	}{
		{"text", "\"a\xff\"", `null "sound"`, "text", 1},
		{"half a surrogate", `"\ud83d and more"`, `null "sound"`, "text", 1},
		{"raw tab and newline", "\"a\tb\nc\x01\"", `"a\tb\nc\x01" "sound"`, "text", 0},
		{"raw NUL", "\"a\x00b\"", `"a\x00b" "sound"`, "text", 0},
		{"many levels", deep(800), `"` + deep(800) + `" "\"sound\""`, "json", 0},
		{"too many levels", deep(2000), `null "sound"`, "text", 1},
		{"a list with one bad element", "[\"x\",\"\xff\",\"y\"]", `"[\"x\",null,\"y\"]" "\"sound\""`, "json", 1},
		{"an object stored as JSON text", "{\"1\": {\"b\": 1,\"b\": 2,\"c\":\"\xff\"}, \"2\": 3}", `"{\"1\":{\"b\":null,\"c\":null},\"2\":3}" "\"sound\""`, "json", 2},
		{"a duplicate name with equal values", `7,"a":7`, `"7" "sound"`, "text", 0},
		{"a control", `"7"`, `"7" "sound"`, "text", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := mustMap(t, keyedStream, `[{"id":1,"a":`+tt.value+`,"z":"behind"},{"id":2,"a":"sound"}]`)
			a, typ := out.table("").column("/a")
			require.Equal(t, tt.want, lines(a))
			require.Equal(t, tt.typ, schemas.TypeName(typ))
			z, _ := out.table("").column("/z")
			require.Equal(t, `"behind" null`, lines(z))
			require.Len(t, out.rejects, tt.rejects)
			for _, r := range out.rejects {
				require.False(t, r.Record)
				require.Equal(t, "1", r.ID)
			}
		})
	}
}

// A null in an array of objects gives no row. The other elements keep their positions.
func TestNullsInAListOfObjects(t *testing.T) {
	out := mustMap(t, keyedStream, `[{"id":1,"items":[null,{"n":1},null,{"n":2}]},{"id":2,"items":[{"n":3}]},{"id":3,"items":[null]}]`)
	items := out.table("/items")
	require.NotNil(t, items)
	n, _ := items.column("/n")
	require.Equal(t, "1 2 3", lines(n))
	require.Equal(t, "1 3 0", lines(items.own(schemas.ColIndex)))
	require.Equal(t, []string{"/items/0", "/items/2"}, []string{out.rejects[0].Pointer, out.rejects[1].Pointer})
}

func TestRejectedValuesAreMasked(t *testing.T) {
	s := keyedStream
	s.Rules = schemas.Rules{Masks: masks("secret", "redact")}
	for _, value := range []string{"\"RAW\xff\"", `"RAW","secret":"RAW2"`, `{"1":{"x":"RAW","x":"RAW2"}}`, `[{"in":"RAW\ud800"}]`, `["RAW\ud800"]`} {
		out := mustMap(t, s, `[{"id":1,"o":{"secret":`+value+`},"name":"\ud800"}]`)
		require.NotEmpty(t, out.rejects)
		for _, r := range out.rejects {
			require.NotContains(t, r.Raw, "RAW", value)
		}
	}
}

func TestDeepValueIsRejectedAlone(t *testing.T) {
	deep := `{"id":2,"x":` + deep(100_000) + `}`
	out := mustMap(t, keyedStream, `[{"id":1},`+deep+`,{"id":3,"x":[`+strings.Repeat("1,", 1_000_000)+`1]}]`)
	a, _ := out.table("").column("/id")
	require.Equal(t, "1 2 3", lines(a))
	require.Len(t, out.rejects, 1)
	require.Equal(t, reasons[refuseDepth], out.rejects[0].Reason)
	require.Equal(t, "/x", out.rejects[0].Pointer)
}

// Large records are repaired in linear time. One record has many duplicate names, and another record has an invalid
// value deep inside.
// Invariants 11 and 15
func TestRepairOfLargeRecords(t *testing.T) {
	s := schemas.Stream{Name: "x.things", Table: schemas.Table{Name: "x_things", Key: []string{"id"}}}
	m := NewMapper(s, Stamp{Run: "r"}, nil)
	defer m.Close()
	var twice strings.Builder
	for i := range 150_000 {
		fmt.Fprintf(&twice, `,"k%06d":1,"k%06d":2`, i, i)
	}
	deep := strings.Repeat(`{"a":[`, 400) + `"` + strings.Repeat("x", 2<<20) + "\xff" + `"` + strings.Repeat("]}", 400)
	shallow := strings.Repeat(`{"a":`, 3) + `"` + "\xff" + `"` + strings.Repeat("}", 3)
	require.NoError(t, appendAll(m, []byte(`[{"id":1`+twice.String()+`},{"id":2,"name":"two","deep":`+deep+`},{"id":3,"deep":`+shallow+`}]`)))
	batches, rejects := m.Flush()
	release(batches, nil)
	require.EqualValues(t, 3, batches[0].Batch.NumRows())
	require.Len(t, rejects, 150_002)
	require.Equal(t, "1, 2", rejects[149_999].Raw)
	require.Equal(t, "/deep"+strings.Repeat("/a/0", 9)+"/a", rejects[150_000].Pointer, "below a certain depth, the whole object or array is rejected")
	require.Equal(t, "/deep/a/a/a", rejects[150_001].Pointer)
}

// A reject takes about as much space as its value, although a byte that is not UTF-8 is shown as four bytes.
// Invariants 6 and 11
func TestRejectsOfInvalidUTF8AreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		page   string
		most   int
		whole  bool
		reason string
	}{
		"a value with a few bad bytes":  {`[{"id":1,"a":"` + strings.Repeat("x", 1000) + "\xff\xff" + `"}]`, 1200, true, reasons[refuseEncoding]},
		"a value of bad bytes":          {`[{"id":1,"a":"` + strings.Repeat("\xff", 1000) + `"}]`, 1200, false, reasons[refuseEncoding]},
		"a duplicate key":               {`[{"id":1,"id":2,"a":"` + strings.Repeat("x", 1000) + `"}]`, 1100, true, reasons[refuseDuplicate]},
		"a record with a few bad bytes": {`[{"id":"` + strings.Repeat("x", 1000) + "\xff" + `"}]`, 1100, true, reasons[refuseEncoding] + notText},
		"a record of bad bytes":         {`[{"id":"` + strings.Repeat("\xff", 1000) + `"}]`, 1200, false, reasons[refuseEncoding] + notWhole},
		"a record without a key":        {`[{"b":"` + strings.Repeat("\xff", 1000) + `"}]`, 1200, false, reasons[refuseEncoding] + notWhole},
	} {
		t.Run(name, func(t *testing.T) {
			out := mustMap(t, keyedStream, tt.page)
			require.Len(t, out.rejects, 1)
			r := out.rejects[0]
			require.LessOrEqual(t, len(r.Raw), tt.most)
			require.Equal(t, tt.reason, r.Reason)
			require.Equal(t, tt.whole, !strings.HasSuffix(r.Raw, "…") && !strings.HasSuffix(r.Reason, notWhole))
		})
	}
	first := mustMap(t, keyedStream, `[{"b":"`+strings.Repeat("\xff", 1000)+`1"}]`).rejects[0]
	second := mustMap(t, keyedStream, `[{"b":"`+strings.Repeat("\xff", 1000)+`2"}]`).rejects[0]
	require.Equal(t, first.Raw, second.Raw)
	require.NotEqual(t, first.ID, second.ID) // IDs depend on the complete value
}
