package transform

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func compared(t *testing.T, s schemas.Stream, judge func(Clash) ClashVerdict, flush bool, pages ...string) (ids string, rejects []Reject, r Repeats) {
	t.Helper()
	m := NewMapper(s, Stamp{Run: "r"}, nil)
	defer m.Close()
	m.CompareKeys(judge, MostKeySlots)
	out := func() {
		batches, some := m.Flush()
		rejects = append(rejects, some...)
		for _, b := range batches {
			if b.Table.Name == s.Table.Name {
				at := b.Batch.Schema().FieldIndices(s.Table.Key[0])[0]
				for i := range int(b.Batch.NumRows()) {
					ids += " " + b.Batch.Column(at).ValueStr(i)
				}
			}
			b.Batch.Release()
		}
	}
	for _, p := range pages {
		require.NoError(t, appendAll(m, []byte(p)))
		if flush {
			out()
		}
	}
	out()
	require.Equal(t, m.Rejected(), m.Repeats().Rejected)
	return strings.TrimSpace(ids), rejects, m.Repeats()
}

func TestCompareKeys(t *testing.T) {
	all := func(Clash) ClashVerdict { return ClashRefuted }
	none := func(Clash) ClashVerdict { return ClashOpen }
	changed := func(Clash) ClashVerdict { return ClashChanged }
	samePage := func(c Clash) ClashVerdict {
		if c.SamePage {
			return ClashRefuted
		}
		return ClashOpen
	}
	for _, tt := range []struct {
		name  string
		judge func(Clash) ClashVerdict
		pages []string
		ids   string
		want  Repeats
	}{
		{"no key twice", all, []string{`[{"id":1},{"id":2}]`, `[{"id":3}]`}, "1 2 3", Repeats{}},
		{"the same record twice", all, []string{`[{"id":1,"a":2},{"a":2,"id":1}]`, `[{"id":1,"a":2}]`}, "1 1 1", Repeats{Same: 2}},
		{"other content on one page", all, []string{`[{"id":1,"a":2},{"id":1,"a":3}]`}, "1", Repeats{Rejected: 1}},
		{"other content on two pages", all, []string{`[{"id":1,"a":2}]`, `[{"id":1,"a":3}]`}, "1", Repeats{Rejected: 1}},
		{"judge keeps the record", none, []string{`[{"id":1,"a":2}]`, `[{"id":1,"a":3}]`}, "1 1", Repeats{Open: 1}},
		{"a record that changed", changed, []string{`[{"id":1,"a":2}]`, `[{"id":1,"a":3}]`}, "1 1", Repeats{Changed: 1}},
		{"judge rejects only on the same page", samePage, []string{`[{"id":1,"a":2}]`, `[{"id":1,"a":3},{"id":4},{"id":4,"a":1}]`}, "1 1 4", Repeats{Open: 1, Rejected: 1}},
		{"a volatile field", all, []string{`[{"id":1,"seen":2},{"id":1,"seen":3}]`}, "1 1", Repeats{Same: 1}},
		{"another context", all, []string{`[{"id":1,"a":2,"_context":{"p":1}},{"id":1,"a":2,"_context":{"p":2}}]`}, "1 1", Repeats{Same: 1}},
		{"another context and content", all, []string{`[{"id":1,"a":2,"_context":{"p":1}},{"id":1,"a":3,"_context":{"p":2}}]`}, "1", Repeats{Rejected: 1}},
		{"a number and its text", all, []string{`[{"id":1,"a":1}]`, `[{"id":"x"},{"id":"1","a":2}]`}, "1 x", Repeats{Rejected: 1}},
		{"a page that is read again", all, []string{`[{"id":1,"a":1},{"id":1,"a":2}]`, `[{"id":2,"a":"text"},{"id":2,"a":"other"}]`}, "1 2", Repeats{Rejected: 2}},
	} {
		for _, flush := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/flush=%t", tt.name, flush), func(t *testing.T) {
				s := schemas.Stream{Name: "x.things", Table: schemas.Table{Name: "x_things", Key: []string{"id"}}, Volatile: []string{"seen"}}
				ids, rejects, r := compared(t, s, tt.judge, flush, tt.pages...)
				require.Equal(t, tt.ids, ids)
				require.Equal(t, tt.want, r)
				require.Len(t, rejects, int(tt.want.Rejected))
				for _, j := range rejects {
					require.True(t, j.Record)
					require.True(t, HasWholeRecord(j.Reason))
					require.NotEmpty(t, j.Raw)
				}
			})
		}
	}
}

// A page that is appended in parts counts as one page, even when it is read again because a type was widened.
func TestCompareKeysAppendMore(t *testing.T) {
	s := schemas.Stream{Name: "x.things", Table: schemas.Table{Name: "x_things", Key: []string{"id"}}}
	for _, flush := range []bool{false, true} {
		var same []bool
		m := NewMapper(s, Stamp{Run: "r"}, nil)
		m.CompareKeys(func(c Clash) ClashVerdict { same = append(same, c.SamePage); return ClashOpen }, MostKeySlots)
		for i, part := range []string{`[{"id":1,"a":1}]`, `[{"id":2}]`, `[{"id":1,"a":2}]`, `[{"id":1,"a":3,"b":4}]`, `[{"id":3,"b":"text"}]`} {
			require.NoError(t, wholly(m.append([]byte(part), i != 0 && i != 3)))
			if flush {
				batches, _ := m.Flush()
				for _, b := range batches {
					b.Batch.Release()
				}
			}
		}
		require.Equal(t, []bool{true, false}, same[:2], "flush=%t", flush)
		for i, again := range same[2:] {
			require.Equal(t, i%2 == 0, again, "read again")
		}
		require.EqualValues(t, 5, m.Fetched())
		m.Close()
		require.EqualValues(t, 2, m.Repeats().Open, "the counts stay the same")
		m.Close()
	}
}

// The beginning of a page was flushed. The rest of the page is read again together with the next page, but still counts
// as a part of the first page. // Invariant 11
func TestCompareKeysAfterFlush(t *testing.T) {
	var same []bool
	m := NewMapper(schemas.Stream{Name: "x.things", Table: schemas.Table{Name: "x_things", Key: []string{"id"}}}, Stamp{Run: "r"}, nil)
	defer m.Close()
	m.CompareKeys(func(c Clash) ClashVerdict {
		same = append(same, c.SamePage)
		if c.SamePage {
			return ClashRefuted
		}
		return ClashOpen
	}, MostKeySlots)
	require.NoError(t, appendAll(m, []byte(`[{"id":9,"a":0}]`)))
	batches, _ := m.Flush()
	for _, b := range batches {
		b.Batch.Release()
	}
	require.NoError(t, appendMore(m, []byte(`[{"id":1,"a":1},{"id":1,"a":2}]`)))
	require.NoError(t, appendAll(m, []byte(`[{"id":3,"a":"text"}]`)))
	require.Equal(t, []bool{true, true}, same, "judged, and judged again because the column a was widened")
	batches, rejects := m.Flush()
	for _, b := range batches {
		b.Batch.Release()
	}
	require.Len(t, rejects, 1)
	require.EqualValues(t, 1, m.Repeats().Rejected)
}

// The table of keys takes limited memory. The table reports that it has replaced keys. // Invariant 6
func TestKeyTableIsBounded(t *testing.T) {
	table := keyTable{most: MostKeySlots}
	for i := range uint64(MostKeySlots / 2) {
		_, known := table.put(i*0x9e3779b97f4a7c15, keyEntry{content: uint32(i)})
		require.False(t, known)
	}
	require.False(t, table.lossy)
	for i := range uint64(MostKeySlots / 2) {
		e, known := table.put(i*0x9e3779b97f4a7c15, keyEntry{})
		require.True(t, known)
		require.Equal(t, uint32(i), e.content)
	}
	for i := range uint64(2 * MostKeySlots) {
		table.put(i*0x9e3779b97f4a7c15, keyEntry{content: uint32(i)})
	}
	require.True(t, table.lossy)
	require.Len(t, table.slots, MostKeySlots)
}
