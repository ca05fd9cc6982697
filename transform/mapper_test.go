package transform

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/schemas"
)

type mapped struct {
	batches []TableBatch
	rejects []Reject
	mem     *memory.CheckedAllocator // nil: not checked
	key     string                   // pointer of the field for the first key column
}

func mapPages(t require.TestingT, s schemas.Stream, pages ...string) (mapped, error) {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	m := NewMapper(s, testStamp, nil)
	m.SetAllocator(mem)
	var failed error
	for _, p := range pages {
		if err := appendAll(m, []byte(p)); err != nil {
			var syntax *SyntaxError
			require.ErrorAs(t, err, &syntax)
			require.LessOrEqual(t, syntax.Offset, len(p))
			failed = err
		}
	}
	rows := m.Rows()
	require.Equal(t, m.Fetched(), int64(rows)+m.Rejected())
	var out mapped
	out.batches, out.rejects = m.Flush()
	require.Zero(t, m.Rows())
	require.Zero(t, m.Bytes())
	if rows > 0 {
		require.Equal(t, int64(rows), out.batches[0].Batch.NumRows())
	}
	if len(m.tables.key.columns) > 0 && m.tables.key.columns[0] != nil {
		out.key = m.tables.key.columns[0].source
	}
	m.Close()
	out.mem = mem
	return out, failed
}

func (out mapped) release() {
	for _, b := range out.batches {
		b.Batch.Release()
	}
	if n := out.leaked(); n != 0 {
		panic(fmt.Sprintf("%d bytes were not released", n))
	}
}

func (out mapped) leaked() int {
	if out.mem == nil {
		return 0
	}
	return out.mem.CurrentAlloc()
}

func (out mapped) table(path string) *TableBatch {
	for i, b := range out.batches {
		if p, _ := b.Table.Columns.Metadata().GetValue(schemas.SourceKey); p == path {
			return &out.batches[i]
		}
	}
	return nil
}

func (b *TableBatch) column(source string) (arrow.Array, arrow.DataType) {
	for i, f := range b.Table.Columns.Fields() {
		if s, ok := f.Metadata.GetValue(schemas.SourceKey); ok && s == source {
			return b.Batch.Column(i), schemas.TypeOf(f)
		}
	}
	return nil, schemas.Null
}

func (b *TableBatch) own(name string) arrow.Array {
	i := b.Batch.Schema().FieldIndices(name)
	if len(i) == 0 {
		return nil
	}
	return b.Batch.Column(i[0])
}

func compare(t require.TestingT, o *oracle, out mapped) {
	refused := map[int64]bool{}
	for _, r := range out.rejects {
		if r.Record {
			refused[r.Ordinal] = true
			require.Contains(t, o.refused, r.Ordinal, "refused %s: %s", r.Reason, r.Raw)
		}
	}
	require.Len(t, refused, len(o.refused), "records that the oracle refuses: %v", o.refused)
	tables := 0
	for path, want := range o.tables {
		if len(want.rows) == 0 {
			continue
		}
		tables++
		got := out.table(path)
		require.NotNil(t, got, "table at %q", path)
		compareTable(t, o, path, want, got)
	}
	require.Len(t, out.batches, tables)
}

func compareTable(t require.TestingT, o *oracle, path string, want *oracleTable, got *TableBatch) {
	require.Equal(t, int64(len(want.rows)), got.Batch.NumRows())
	columns := 0
	for source, typ := range want.types {
		if kindOf(typ) == kindNone {
			continue
		}
		columns++
		a, gotType := got.column(source)
		require.NotNil(t, a, "column %q of %q, want %v", source, path, typ)
		require.True(t, schemas.SameType(typ, gotType), "column %q of %q: type %v, want %v", source, path, gotType, typ)
		for row, r := range want.rows {
			require.Equal(t, cell(r[source], typ), arrowCell(a, row), "row %d of column %q of %q", row, source, path)
		}
	}
	for i, f := range got.Table.Columns.Fields() {
		// If only rejected records had values for a declared column, the column exists and all its values are null.
		if !strings.HasPrefix(f.Name, "_penstock_") && (want.types[schemas.Source(f)] != nil || got.Batch.Column(i).NullN() < len(want.rows)) {
			columns--
		}
	}
	require.Zero(t, columns, "columns of %q: %v", path, got.Table.Columns)
	ordinals := got.own(schemas.ColOrdinal).(*array.Int64)
	for row, ordinal := range want.ordinal {
		require.Equal(t, ordinal, ordinals.Value(row))
		if path != "" {
			require.Equal(t, int64(want.index[row]), got.own(schemas.ColIndex).(*array.Int64).Value(row))
		}
	}
}

func check(t require.TestingT, s schemas.Stream, pages ...string) {
	o := newOracle(s)
	bad := 0
	for _, p := range pages {
		if err := o.page([]byte(p)); err != nil {
			bad++
		}
	}
	out, err := mapPages(t, s, pages...)
	defer out.release()
	if bad == 0 {
		require.NoError(t, err, "%.200q", pages)
	} else {
		require.Error(t, err, "%.200q", pages)
	}
	if out.key != "" && out.key != "/"+s.Key[0] {
		return
	}
	compare(t, o, out)
}

// anyStream has no key, so it accepts any record. typedStream declares the types of some columns.
var (
	anyStream   = schemas.Stream{Table: schemas.Table{Name: "t"}, Name: "m.t"}
	keyedStream = schemas.Stream{Table: schemas.Table{Name: "t", Key: []string{"id"}}, Name: "m.t"}
	typedStream = schemas.Stream{Table: schemas.Table{Name: "t"}, Name: "m.t", Types: map[string]string{
		"a": "decimal", "b": "bool", "c": "int64", "d": "date", "e": "timestamp", "f": "float64", "g": "json", "h": "text",
		"i__a": "decimal(20,6)", "i__g": "json",
	}}
)

func TestMapperAgreesWithTheOracle(t *testing.T) {
	for _, pages := range corpus {
		for _, s := range []schemas.Stream{anyStream, keyedStream, typedStream} {
			t.Run(fmt.Sprintf("%.60q", pages), func(t *testing.T) { check(t, s, pages...) })
		}
	}
}

// corpus has pages with all kinds of difficulties. They are also the seeds of the fuzz tests.
var corpus = [][]string{
	{``}, {`[`}, {`]`}, {`[]`}, {` [ ] `}, {`[] x`}, {`[],`}, {`{}`}, {`null`}, {`[{}]`}, {`[{},{}]`}, {`[{},]`}, {`[,{}]`}, {"\ufeff[]"},
	{`[null]`, `[1,"a",true,[1,2],[{"a":1}],[]]`}, {`[{"":1}]`}, {`[{"a":1}{"a":2}]`}, {`[{"a" 1}]`}, {`[{"a":}]`}, {`[{"a":1,}]`}, {`[{a:1}]`},
	{"[\n{ \"a\" :\t1 ,\r\"b\" : [ 1 , 2 ] , \"c\" : { \"d\" : null } , \"i\" : [ { \"a\" : 1 } , { } ] } ]\n"},
	{`[{"a":1,"b":2,"c":3},{"c":1,"a":2},{"b":1},{"d":5,"a":1,"b":2,"c":3}]`},
	{`[{"a":1,"a":2}]`}, {`[{"a":1,"\u0061":2}]`}, {`[{"x":{"a":1,"a":2}}]`}, {`[{"g":{"1":1,"1":2}},{"g":1}]`}, {`[{"i":[{"a":1},{"a":1,"a":2}]},{"i":[{"a":3}]}]`},
	{`[{"a":1},{"A":2},{"a":1,"A":2,"a_":3}]`}, {`[{"a/b":1,"a~b":2,"a":{"b":3},"a__b":4}]`}, {`[{"\u0061":1},{"a\"b":2},{"a\"b":3,"a\\":4}]`},
	{`[{"a":-0},{"a":0},{"a":-0.0},{"a":0.00},{"a":-0e5},{"a":0e-5}]`}, {`[{"a":01}]`}, {`[{"a":1.}]`}, {`[{"a":.5}]`}, {`[{"a":+1}]`}, {`[{"a":-}]`}, {`[{"a":1e}]`}, {`[{"a":1e+}]`}, {`[{"a":-01}]`},
	{`[{"a":1e5},{"a":1E5},{"a":1.5e3},{"a":15e-1},{"a":1e18},{"a":1e19}]`}, {`[{"a":1e30}]`, `[{"a":1e38}]`}, {`[{"a":1e400}]`}, {`[{"a":1E-400}]`}, {`[{"a":1e-30}]`}, {`[{"a":1e99999999999999999999}]`}, {`[{"a":0e99999999999999999999}]`},
	{`[{"a":6.02214076e23},{"a":1.7976931348623157e308},{"a":5e-324}]`}, {`[{"a":1.23456789012345678901e50}]`}, {`[{"a":NaN}]`}, {`[{"a":Infinity}]`},
	{`[{"a":9007199254740993},{"a":9223372036854775807},{"a":-9223372036854775808}]`}, {`[{"a":9223372036854775808}]`}, {`[{"a":1}]`, `[{"a":18446744073709551615}]`},
	{`[{"a":99999999999999999999999999999999999999},{"a":-1}]`}, {`[{"a":100000000000000000000000000000000000000}]`}, {`[{"a":` + strings.Repeat("7", 400) + `}]`},
	{`[{"a":1.5},{"a":2.25},{"a":3},{"a":0.1},{"a":-1.50}]`}, {`[{"a":3},{"a":2.25}]`}, {`[{"a":0.000000000000000000000001}]`}, {`[{"a":0.0000000000000000000000001}]`}, {`[{"a":12345678901234.5},{"a":123456789012345.25}]`},
	{`[{"a":99999999999999999999.5},{"a":0.123456789012345678}]`}, {`[{"a":1.5},{"a":"x"}]`}, {`[{"a":true},{"a":1}]`}, {`[{"a":true},{"a":false},{"a":null}]`}, {`[{"a":tru}]`}, {`[{"a":nul}]`}, {`[{"a":fals}]`}, {`[{"a":truex}]`},
	{`[{"a":"1250.00","b":"1","c":"7","d":"2026-11-20","e":"2026-11-20T10:00:00Z","f":1.5,"g":{"x":1},"h":5}]`},
	{`[{"a":"1250.00"},{"a":100},{"a":100.5},{"a":"-0.00"},{"a":"1,250.00"}]`}, {`[{"a":"1250.00"},{"a":100},{"a":100.5},{"a":null},{"a":1e2},{"a":"-12.5"}]`}, {`[{"a":"007"}]`}, {`[{"a":"1."}]`}, {`[{"a":"1e5"}]`}, {`[{"a":"12.345"}]`}, {`[{"a":123456789012345}]`},
	{`[{"b":0},{"b":1},{"b":"0"},{"b":"1"},{"b":true},{"b":false}]`}, {`[{"b":0},{"b":2}]`}, {`[{"b":true},{"b":"on"}]`}, {`[{"c":"5"},{"c":6}]`}, {`[{"c":"5.5"}]`}, {`[{"c":"99999999999999999999"}]`}, {`[{"c":true}]`},
	{`[{"d":"2026-02-29"}]`}, {`[{"d":"2024-02-29"},{"d":"1900-02-29"}]`}, {`[{"d":"0000-00-00"}]`}, {`[{"d":"0000-01-01"}]`}, {`[{"d":"0001-01-01"},{"d":"9999-12-31"}]`}, {`[{"d":"-"}]`}, {`[{"d":"2026-11-20T00:00:00.000000Z"},{"d":"2026-11-20"}]`},
	{`[{"e":"2026-11-20T23:59:60Z"}]`}, {`[{"e":"2026-11-20T24:00:00Z"}]`}, {`[{"e":"2026-11-20T00:00:00"}]`}, {`[{"e":"2026-11-20 00:00:00Z"}]`}, {`[{"e":"2026-11-20T00:00:00.1234567Z"}]`}, {`[{"e":"2026-11-20T00:00:00.Z"}]`},
	{`[{"e":"2026-11-20T00:00:00+05:30"},{"e":"2026-11-20T00:00:00.5-00:00"},{"e":"0001-01-01T00:00:00+23:59"},{"e":"9999-12-31T23:59:59.999999-23:59"}]`}, {`[{"e":"2026-11-20T00:00:00+24:00"}]`}, {`[{"e":"10000-01-01T00:00:00Z"}]`}, {`[{"e":"-0001-11-30T00:00:00.000000Z"}]`},
	{`[{"e":"2026-11-20T00:00:00.000000Z"}]`, `[{"e":"-"}]`}, {`[{"e":"2026-11-20T00:00:00Z"},{"e":"2026-11-2\u0030T00:00:00Z"}]`}, {`[{"f":5},{"f":0.1},{"f":0.30000000000000004}]`}, {`[{"f":0.1000000000000000055511151231257827}]`}, {`[{"f":-0}]`}, {`[{"f":16777217},{"f":9007199254740993}]`},
	{`[{"g":1},{"g":"x"},{"g":[1, 2]},{"g":{"a": {"b":1}}},{"g":[]},{"g":{}},{"g":null}]`}, {`[{"h":1},{"h":"x\ty"},{"h":true},{"h":-0},{"h":{"x":1}},{"h":[1]}]`},
	{`[{"s":"plain"},{"s":"es\"c\\a\/p\b\f\n\r\ted"},{"s":"\u00e9\u4e2d\ud83d\ude00\u0000"},{"s":"é中😀"},{"s":""}]`}, {`[{"s":"\ud800"}]`}, {`[{"s":"\udc00\ud800"}]`}, {`[{"s":"\ud800\u0041"}]`}, {`[{"s":"\ud800x"}]`}, {`[{"s":"\uD83D\uDE00"}]`}, {`[{"s":"\u12g4"}]`}, {`[{"s":"\x"}]`}, {"[{\"s\":\"a\nb\"}]"}, {"[{\"s\":\"a\x00b\"}]"}, {"[{\"s\":\"a\x7fb\"}]"},
	{"[{\"s\":\"\xff\"},{\"s\":1}]"}, {"[{\"s\":\"\xc0\x80\"}]"}, {"[{\"s\":\"\xed\xa0\x80\"}]"}, {"[{\"\xff\":1}]"}, {"[{\"s\":\"12345678\xc3\"}]"}, {"[{\"g\":{\"1\":\"\xff\"}}]"}, {`[{"g":{"1":"\ud800"}}]`}, {"[{\"s\":\"long enough for two words \xc3\xa9 and more\"}]"},
	{"[{" + strings.Repeat("\xff", 16) + `"a":1}]`}, {`[{"a\"b":1,` + strings.Repeat("\xff", 16) + `"a":1}]`},
	{`[{"x":[1,2,3]},{"x":[]},{"x":null},{"x":[null,4]}]`}, {`[{"x":[]},{"x":[1]}]`}, {`[{"x":[]}]`, `[{"x":"s"}]`}, {`[{"x":[null]}]`, `[{"x":["a"]}]`}, {`[{"x":[null]},{"x":5}]`}, {`[{"x":["1","4"]},{"x":"1,4"}]`}, {`[{"x":["3",5]},{"x":{"0":"3","2":"5"}}]`}, {`[{"x":[1,2]},{"x":[1.5]},{"x":["a"]}]`},
	{`[{"x":[[1],[2]]}]`}, {`[{"x":[1,{"a":2}]}]`}, {`[{"x":[{"a":2},1]}]`, `[{"x":[{"a":3}]}]`}, {`[{"x":[{"a":2},{"1":2}]}]`}, {`[{"x":[{"a":2},null]}]`}, {`[{"x":[1,2}]`}, {`[{"x":[1 2]}]`}, {`[{"x":[1,]}]`}, {`[{"x":["2026-11-20","2026-11-21"]},{"x":[true]}]`}, {`[{"x":[-0,1]}]`, `[{"x":[0.5,-0.0]}]`},
	{`[{"o":{"a":1,"b":{"c":2}}},{"o":null},{"o":"x"},{"o":{}},{"o":[]},{"o":{"a":"y"}}]`}, {`[{"o":{"a":{"b":{"c":{"d":1}}}}}]`}, {`[{"o":{"a":{"b":{}}}},{"o":{"a":{"b":{"c":1}}}},{"o":{"a":{"b":[{"c":1}]}}},{"o":{"a":{"b":[1]}}}]`}, {`[{"o":{"1":2,"x":3}}]`}, {`[{"o":{"x":3,"1":2}}]`}, {`[{"1":2}]`}, {`[{"o":{"1":2,"3":[}}]`},
	{`[{"i":[{"a":1,"t":[{"n":1},{"n":2}]},{"a":"2","t":[]}]},{"i":[]},{"i":[{"t":[{"n":3,"u":[{"v":1}]}]}]}]`}, {`[{"o":{"i":[{"a":1.5}]}},{"i":[{"g":[1,{"x":2}]}]}]`}, {`[{"i":[{"a":1}]},{"i":[{"a":"x","b":-0}]}]`},
	{`[{"id":1},{"id":null},{},{"id":"1"},{"id":[1]},{"id":{"a":1}},{"id":{"1":1}},{"id":{}},{"id":[]},{"id":true}]`}, {`[{"id":1,"a":1},{"id":2,"a":2,"id":3}]`, `[{"id":"x"}]`},
	{`[{"deep":` + strings.Repeat("[", 198) + strings.Repeat("]", 198) + `}]`}, {`[{"deep":` + strings.Repeat("[", 199) + strings.Repeat("]", 199) + `}]`}, {`[{"deep":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `},{"deep":1}]`},
	{`[{"deep":` + strings.Repeat(`{"a":`, 199) + "1" + strings.Repeat("}", 199) + `}]`}, {`[{"deep":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200) + `}]`},
	{`[{"a":1}]`, `[{"a":`, `[{"a":"x"}]`}, {`[{"a":1}]`, `[{"a":"x"},{"a":}]`, `[{"a":2}]`}, {`[{"a":1}]`, `[{"a":"x","b":1,"b":2}]`},
}

func TestTruncatedPageIsRefused(t *testing.T) {
	page := string(contacts(1, 5)[0])
	page = page[:len(page)-1] + `,{"id":1,"x":[1.5e3,{"1":[true]}],"y":"\ud83d\ude00"}]`
	m := NewMapper(contactStream(), testStamp, nil)
	require.NoError(t, appendAll(m, []byte(page)))
	batches, _ := m.Flush()
	before := mapped{batches: batches}
	defer before.release()
	require.NoError(t, appendAll(m, []byte(page)))
	rows := m.Rows()
	for i := range len(page) {
		err := appendAll(m, []byte(page[:i]))
		require.Error(t, err, "cut at %d", i)
		var syntax *SyntaxError
		require.ErrorAs(t, err, &syntax)
		require.Equal(t, rows, m.Rows(), "cut at %d", i)
		require.LessOrEqual(t, syntax.Offset, i)
	}
	batches, _ = m.Flush()
	after := mapped{batches: batches}
	defer after.release()
	require.Equal(t, summary(before), summary(after))
	m.Close()
}

func TestTypesDoNotDependOnOrder(t *testing.T) {
	values := []string{
		`null`, `true`, `0`, `1`, `-7`, `2.5`, `1.50`, `1e5`, `1e-30`, `9223372036854775808`, `"x"`, `"1"`, `"2.50"`, `"2026-11-20"`,
		`"2026-11-20T10:00:00Z"`, `"2026-11-20T10:00:00.5+01:00"`, `[]`, `{}`, `[1]`, `[1.5]`, `["a"]`, `[null]`, `[true,null]`, `[[1]]`,
		`{"p":1}`, `{"p":"x"}`, `{"1":2}`, `[{"q":1}]`, `[{"q":"z"},{}]`, `[{"q":1},2]`,
	}
	rapid.Check(t, func(t *rapid.T) {
		record := rapid.Custom(func(t *rapid.T) string {
			var members []string
			for _, name := range []string{"a", "b", "c", "x", "id"} {
				if v := rapid.SampledFrom(append(values, "")).Draw(t, name); v != "" {
					members = append(members, fmt.Sprintf("%q:%s", name, v))
				}
			}
			return "{" + strings.Join(rapid.Permutation(members).Draw(t, "members"), ",") + "}"
		})
		records := rapid.SliceOfN(record, 1, 8).Draw(t, "records")
		shuffled := rapid.Permutation(records).Draw(t, "shuffled")
		s := rapid.SampledFrom([]schemas.Stream{anyStream, typedStream, keyedStream}).Draw(t, "stream")
		cut := rapid.IntRange(0, len(records)).Draw(t, "cut")
		pages := func(r []string) []string {
			return []string{"[" + strings.Join(r[:cut], ",") + "]", "[" + strings.Join(r[cut:], ",") + "]"}
		}
		check(t, s, pages(records)...)
		check(t, s, pages(shuffled)...)
		a, err := mapPages(t, s, pages(records)...)
		require.NoError(t, err)
		defer a.release()
		b, err := mapPages(t, s, pages(shuffled)...)
		require.NoError(t, err)
		defer b.release()
		require.Equal(t, summary(a), summary(b))
	})
}

func summary(out mapped) []string {
	var lines []string
	for _, b := range out.batches {
		var names []string
		for _, f := range b.Table.Columns.Fields() {
			names = append(names, fmt.Sprintf("%s %s %v", b.Table.Name, f.Name, schemas.TypeOf(f)))
		}
		sort.Strings(names)
		lines = append(lines, names...)
		fields := b.Table.Columns.Fields()
		for row := range int(b.Batch.NumRows()) {
			var cells []string
			for i, f := range fields {
				if f.Name == schemas.ColOrdinal || f.Name == schemas.ColParent || f.Name == schemas.ColRoot {
					continue
				}
				cells = append(cells, f.Name+"="+arrowCell(b.Batch.Column(i), row))
			}
			sort.Strings(cells)
			lines = append(lines, b.Table.Name+": "+strings.Join(cells, " "))
		}
	}
	sort.Strings(lines)
	return lines
}

func FuzzMapper(f *testing.F) {
	for _, pages := range corpus {
		f.Add(pages[0], strings.Join(pages[1:], ""), byte(0))
		f.Add(pages[0], strings.Join(pages[1:], ""), byte(2))
	}
	f.Add(`[{"Id":0}`, `[{"id":""}]`, byte(1))
	streams := []schemas.Stream{anyStream, keyedStream, typedStream}
	f.Fuzz(func(t *testing.T, first, second string, stream byte) {
		rest := strings.HasPrefix(strings.TrimSpace(first), ",") || strings.HasPrefix(strings.TrimSpace(second), ",")
		if rest || len(first)+len(second) > 1<<16 { // the rest of an array, which a Mapper accepts, begins with a comma
			return
		}
		check(t, streams[int(stream)%len(streams)], first, second)
	})
}
