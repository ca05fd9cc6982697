package transform

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/schemas"
)

func bounded(columns, tables int) schemas.Stream {
	return schemas.Stream{
		Table: schemas.Table{Name: "x_records", Key: []string{"id"}}, Name: "x.records",
		MaxColumns: columns, MaxTables: tables,
	}
}

func restOf(out mapped) (all []string) {
	a, _ := out.batches[0].own(schemas.ColRest).(*array.String)
	for row := range int(out.batches[0].Batch.NumRows()) {
		if a == nil || a.IsNull(row) {
			all = append(all, "")
		} else {
			all = append(all, a.Value(row))
		}
	}
	return all
}

func hashesOf(out mapped) (all []string) {
	a := out.batches[0].own(schemas.ColHash).(*array.String)
	for row := range a.Len() {
		all = append(all, a.Value(row))
	}
	return all
}

func tablesMapped(out mapped) (all []schemas.Table) {
	for _, b := range out.batches {
		all = append(all, b.Table)
	}
	return all
}

func mapKnown(t require.TestingT, s schemas.Stream, known []schemas.Table, page string) mapped {
	m := NewMapper(s, testStamp, known)
	require.NoError(t, appendAll(m, []byte(page)))
	var out mapped
	out.batches, out.rejects = m.Flush()
	m.Close()
	return out
}

func TestMembersBeyondTheLimit(t *testing.T) {
	for _, tt := range []struct {
		name            string
		columns, tables int
		page            string
		rest            []string
	}{
		{"all fits", 3, 1, `[{"id":1,"a":1,"b":2},{"id":2}]`, []string{"", ""}},
		{"scalars, sorted", 2, 1, `[{"id":1,"a":1,"c":"x","b":[1, 2]},{"id":2,"a":3}]`, []string{`{"b":[1, 2],"c":"x"}`, ""}},
		{"a member of an object", 2, 1, `[{"id":1,"o":{"a":1,"b":{"c":2}}}]`, []string{`{"o":{"b":{"c":2}}}`}},
		{"an object that has no column", 1, 1, `[{"id":1,"o":{"a":1}}]`, []string{`{"o":{"a":1}}`}},
		{"null needs no column", 2, 1, `[{"id":1,"a":null,"b":null,"c":{},"d":[]},{"id":2,"e":1}]`, []string{"", ""}},
		{"a child table", 9, 1, `[{"id":1,"a":[{"x":1}],"b":[{"y":1},null]}]`, []string{`{"b":[{"y":1},null]}`}},
		{"columns of a child table", 2, 1, `[{"id":1,"a":[{"x":1},{"x":2,"y":3},{"y":4}]}]`, []string{`{"a":[null,{"y":3},{"y":4}]}`}},
		{"the key always has a column", 1, 1, `[{"a":1,"b":2,"id":1}]`, []string{`{"b":2}`}},
		{"a name like one of penstock's own columns", 1, 1, `[{"id":1,"_penstock_rest":2}]`, []string{`{"_penstock_rest":2}`}},
		{"an escaped name", 1, 1, `[{"id":1,"\u0061\"/~":2}]`, []string{`{"\u0061\"/~":2}`}},
		{"a long name", 9, 1, `[{"id":1,"` + strings.Repeat("n", 1025) + `":2,"` + strings.Repeat("m", 1024) + `":3}]`, []string{`{"` + strings.Repeat("n", 1025) + `":2}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := mustMap(t, bounded(tt.columns, tt.tables), tt.page)
			defer out.release()
			require.Equal(t, tt.rest, restOf(out))
		})
	}
}

func TestRestRejectsInvalidValues(t *testing.T) {
	out := mustMap(t, bounded(1, 1), `[{"id":1,"a":1,"a":2,"b":3},{"id":2,"c":"\ud800","d":4},{"id":3,"e":{"f":1,"f":2},"g":5}]`)
	defer out.release()
	require.Equal(t, []string{`{"b":3}`, `{"d":4}`, `{"g":5}`}, restOf(out))
	var at []string
	for _, r := range out.rejects {
		at = append(at, r.ID+r.Pointer)
	}
	require.Equal(t, []string{"1/a", "2/c", "3/e/f"}, at)
}

func TestRestIsMasked(t *testing.T) {
	s := bounded(1, 1)
	s.Rules = schemas.Rules{Masks: masks("b", "redact", "o__c", "drop", "l__d", "redact")}
	out := mustMap(t, s, `[{"id":1,"a":1,"b":"secret","o":{"c":"secret","e":1},"l":[{"d":"secret"}]}]`)
	defer out.release()
	require.NotContains(t, restOf(out)[0], "secret")
	require.Contains(t, restOf(out)[0], `"a":1`)
}

func TestDroppedMembersDoNotCount(t *testing.T) {
	s := bounded(2, 1)
	s.Rules = schemas.Rules{Masks: masks("x", "drop", "o__y", "drop")}
	out := mustMap(t, s, `[{"id":1,"x":1,"o":{"y":2},"a":3,"b":4},{"id":2,"o":{"y":[{"z":1}]},"a":5,"b":6}]`)
	defer out.release()
	require.Equal(t, []string{`{"b":4}`, `{"b":6}`}, restOf(out))
}

func TestRecordWithoutRestKeepsHash(t *testing.T) {
	var nulls strings.Builder
	for i := range spareFields + 50 {
		fmt.Fprintf(&nulls, `,"n%d":null`, i)
	}
	const record = `{"id": 2, "z": { "y": 1 }, "l" : [ {"u": 1}, null ]}`
	s := bounded(50, 1)
	// The first record has too many names. So the reader does not first try to store the whole second record in
	// columns.
	anew := mustMap(t, s, `[{"id":1`+nulls.String()+`},`+record+`]`)
	defer anew.release()
	require.Equal(t, []string{"", ""}, restOf(anew))
	fast := mapKnown(t, s, tablesMapped(anew), `[`+record+`]`)
	defer fast.release()
	require.Equal(t, hashesOf(anew)[1], hashesOf(fast)[0])
}

func TestLargerLimitChangesOnlyRowsWithRest(t *testing.T) {
	page := `[{"id":1,"a":1},{"id":2,"a":1,"b":2}]`
	small := mustMap(t, bounded(2, 1), page)
	defer small.release()
	same := mapKnown(t, bounded(2, 1), tablesMapped(small), page)
	defer same.release()
	large := mapKnown(t, bounded(3, 1), tablesMapped(small), page)
	defer large.release()
	require.Equal(t, []string{"", ""}, restOf(large))
	require.Equal(t, hashesOf(small), hashesOf(same))
	require.Equal(t, hashesOf(small)[0], hashesOf(large)[0])
	require.NotEqual(t, hashesOf(small)[1], hashesOf(large)[1])
}

// In any order of records, a later pass gives each record the same hash and the same rest, because the destination
// already has the columns.
func TestLimitDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOfN(rapid.Custom(drawWide), 1, 12).Draw(t, "records")
		s := bounded(rapid.IntRange(1, 8).Draw(t, "columns"), rapid.IntRange(1, 2).Draw(t, "tables"))
		var all []string
		for i, r := range records {
			all = append(all, fmt.Sprintf(`{"id":%d%s}`, i, r))
		}
		first, err := mapPages(t, s, "["+strings.Join(all, ",")+"]")
		require.NoError(t, err)
		defer first.release()
		lossless(t, s, all, first)
		if full := restOf(first)[len(all)-1] != ""; !full {
			return
		}
		order := rapid.Permutation(all).Draw(t, "order")
		second := mapKnown(t, s, tablesMapped(first), "["+strings.Join(order, ",")+"]")
		defer second.release()
		at := map[string]int{}
		for i, r := range all {
			at[r] = i
		}
		for i, r := range order {
			require.Equal(t, hashesOf(first)[at[r]], hashesOf(second)[i], "%s", r)
			require.Equal(t, restOf(first)[at[r]], restOf(second)[i], "%s", r)
		}
	})
}

func drawWide(t *rapid.T) string {
	var b strings.Builder
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 6, rapid.ID[int]).Draw(t, "names") {
		v := rapid.SampledFrom([]string{`1`, `"x"`, `null`, `[1,2]`, `{"p":1,"q":{"r":"2"}}`, `{"q":{"s":1}}`, `[{"u":1}]`, `[{"v":2},{"u":3,"w":[{"z":1}]}]`, `{}`, `[]`, `{"1":2}`}).Draw(t, "value")
		fmt.Fprintf(&b, `,"m%d":%s`, n, v)
	}
	return b.String()
}

func lossless(t require.TestingT, s schemas.Stream, records []string, out mapped) {
	columns := 0
	for _, b := range out.batches {
		for _, f := range b.Table.Columns.Fields() {
			if schemas.Source(f) != "" {
				columns++
			}
		}
	}
	require.LessOrEqual(t, columns, s.MaxColumns+1) // the key does not count
	require.LessOrEqual(t, len(out.batches)-1, s.MaxTables)
	for row, raw := range records {
		var record, rest map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(raw), &record))
		if r := restOf(out)[row]; r != "" {
			require.NoError(t, json.Unmarshal([]byte(r), &rest))
		}
		for name, v := range record {
			if v[0] == '{' || string(v) == "null" || string(v) == "[]" || strings.HasPrefix(string(v), "[{") {
				continue
			}
			a, _ := out.batches[0].column("/" + name)
			stored := a != nil && !a.IsNull(row)
			_, left := rest[name]
			require.True(t, stored != left, "%s of %s: stored %t, in the rest %t", name, raw, stored, left)
			if left {
				require.JSONEq(t, string(v), string(rest[name]))
			}
		}
	}
}

// The source keeps sending new member names. The number of columns and tables in memory stays limited. // Invariant 6
func TestUnlimitedNamesAreBounded(t *testing.T) {
	for name, member := range map[string]string{
		"values": `"k%d":1`, "nulls": `"k%d":null`, "objects": `"k%d":{"a":1}`, "lists": `"k%d":[{"a":1}]`, "long": `"k%0300d":1`,
	} {
		t.Run(name, func(t *testing.T) {
			m := NewMapper(bounded(50, 5), testStamp, nil)
			defer m.Close()
			next := 0
			for page := range 20 {
				var all []string
				for range 1000 {
					all = append(all, fmt.Sprintf(member, next))
					next++
				}
				require.NoError(t, appendAll(m, []byte(fmt.Sprintf(`[{"id":%d,%s}]`, page, strings.Join(all, ",")))))
			}
			require.Empty(t, m.rejects.list)
			tables, columns := 0, 0
			m.tables.root.each(func(t *table) { tables++; columns += len(t.columns) })
			require.Less(t, columns, 3*(50+spareFields))
			require.Less(t, tables, 50+spareFields)
			require.Len(t, m.Tables()[1:], min(5, len(m.Tables())-1))
			if name != "nulls" {
				require.NotEmpty(t, m.BeyondLimit())
			}
		})
	}
}

// If a record has too many members for the columns, the reader splits the next record without first trying to store all
// its members in columns. The hash, the rest and the rejects of the next record must be the same as without the first
// record.
func TestRecordsThatAreSplitAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := bounded(rapid.IntRange(1, 4).Draw(t, "columns"), 1)
		s.Rules.Masks = masks("secret", "drop")
		more := rapid.SampledFrom([]string{"", `,"m1":{"secret":1,"q":2}`, `,"secret":[1]`, `,"m0":1,"m0":2`, `,"m2":"\ud800"`})
		var all []string
		for i, r := range rapid.SliceOfN(rapid.Custom(drawWide), 2, 8).Draw(t, "records") {
			all = append(all, fmt.Sprintf(`{"id":%d%s%s}`, i, r, more.Draw(t, "more")))
		}
		read := func(reset bool) (told []string) {
			m := NewMapper(s, testStamp, nil)
			defer m.Close()
			for _, r := range all {
				m.tables.bound.crossed = m.tables.bound.crossed && !reset
				require.NoError(t, appendAll(m, []byte("["+r+"]")))
			}
			var out mapped
			out.batches, out.rejects = m.Flush()
			defer release(out.batches, nil)
			told = append(hashesOf(out), restOf(out)...)
			for _, r := range out.rejects {
				told = append(told, r.ID+r.Pointer+r.Reason+r.Raw)
			}
			return told
		}
		require.Equal(t, read(true), read(false))
	})
}

// A record fits into the columns because a rule drops one of its members. It follows a record with members beyond the
// limit. The hash of the fitting record is the same as without the other record.
func TestFittingRecordAfterARest(t *testing.T) {
	s := bounded(2, 1)
	s.Rules.Masks = masks("secret", "drop")
	const fits = `{"id":2,"deep":{"secret":1,"x":2}}`
	after, err := mapPages(t, s, `[`+fits+`,{"id":1,"a":1,"b":2},{"id":1,"a":1,"b":2},`+fits+`]`)
	require.NoError(t, err)
	defer after.release()
	require.Equal(t, []bool{false, true, true, false}, []bool{restOf(after)[0] != "", restOf(after)[1] != "", restOf(after)[2] != "", restOf(after)[3] != ""})
	require.Equal(t, hashesOf(after)[0], hashesOf(after)[3])
}
