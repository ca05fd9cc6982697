package transform

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/schemas"
)

func appendAll(m *Mapper, page []byte) error {
	rest, err := m.Append(page)
	return wholly(rest, err)
}

func appendMore(m *Mapper, page []byte) error {
	rest, err := m.append(page, true)
	return wholly(rest, err)
}

func wholly(rest []byte, err error) error {
	if err == nil && len(rest) > 0 {
		return errors.New("the columns are full")
	}
	return err
}

func flushWhenFull(t require.TestingT, m *Mapper, pages []string, visit func([]TableBatch, []Reject)) (flushes int) {
	for _, p := range pages {
		rest, err := m.Append([]byte(p))
		for ; err == nil && len(rest) > 0; rest, err = m.append(rest, true) {
			require.Contains(t, "[,", string(rest[0]))
			visit(m.Flush())
			flushes++
		}
		require.NoError(t, err)
	}
	visit(m.Flush())
	return flushes + 1
}

// identities collects the values that identify rows and rejects. These values do not depend on where a batch ends.
// identities omits the rejects of negative zeros, because a column that is widened to text has no such rejects.
func identities(into *[]string) func([]TableBatch, []Reject) {
	return func(batches []TableBatch, rejects []Reject) {
		for _, b := range batches {
			for _, name := range []string{schemas.ColHash, schemas.ColOrdinal, schemas.ColIndex} {
				if at := b.Batch.Schema().FieldIndices(name); len(at) > 0 {
					*into = append(*into, b.Table.Name+" "+name+"\n"+strings.ReplaceAll(lines(b.Batch.Column(at[0])), " ", "\n"))
				}
			}
			b.Batch.Release()
		}
		for _, r := range rejects {
			if r.Raw != "-0" {
				*into = append(*into, fmt.Sprintf("reject\n%d %s %s %v", r.Ordinal, r.Pointer, r.Reason, r.Record))
			}
		}
	}
}

func byKind(all []string) map[string]string {
	out := map[string]string{}
	for _, line := range all {
		kind, rows, _ := strings.Cut(line, "\n")
		out[kind] += rows + "\n"
	}
	return out
}

// Rows and rejects do not depend on where a batch ends. Invariant 1
func TestFullColumnsChangeNoRow(t *testing.T) {
	s := schemas.Stream{Name: "x.things", Table: schemas.Table{Name: "x_things", Key: []string{"id"}}}
	split := 0
	rapid.Check(t, func(t *rapid.T) {
		pages := ruledPages(t)
		mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
		run := func(c capacity) (out map[string]string, flushes int, repeats Repeats) {
			m := NewMapper(s, Stamp{Run: "r"}, nil)
			m.SetAllocator(mem)
			m.read.capacity = c
			m.CompareKeys(func(Clash) ClashVerdict { return ClashChanged }, MostKeySlots)
			var all []string
			flushes = flushWhenFull(t, m, pages, identities(&all))
			out = byKind(all)
			out["counts"] = fmt.Sprint(m.Fetched(), m.Rejected())
			m.Close()
			return out, flushes, m.Repeats()
		}
		want, _, repeats := run(capacity{batch: 1 << 30, record: 1 << 30, rows: 1})
		have, flushes, again := run(capacity{batch: rapid.Int64Range(0, 400).Draw(t, "bytes"), record: 1 << 30, rows: rapid.IntRange(1, 5).Draw(t, "rows")})
		require.Equal(t, want, have)
		require.Equal(t, repeats, again)
		require.Zero(t, mem.CurrentAlloc())
		if flushes > 1 {
			split++
		}
	})
	require.NotZero(t, split)
}

// If many records together fill the columns, all of them are kept. A record that fills the columns by itself is
// rejected.
// Invariants 1 and 6
func TestNeighborsRejectNoRecord(t *testing.T) {
	s := schemas.Stream{Name: "x.things", Table: schemas.Table{Name: "x_things", Key: []string{"id"}}}
	m := NewMapper(s, Stamp{Run: "r"}, nil)
	m.read.capacity = capacity{batch: 2 << 20, record: 8 << 20, rows: 16}
	defer m.Close()
	var wide strings.Builder
	for i := range 600 {
		fmt.Fprintf(&wide, `,"m%04d":1`, i)
	}
	child := "{" + wide.String()[1:] + "}"
	var page strings.Builder
	for id := range 40 {
		rows := 200
		if id == 20 {
			rows = 3_000
		}
		fmt.Fprintf(&page, `,{"id":%d,"rows":[%s]}`, id, child+strings.Repeat(",{}", rows)+","+child)
	}
	var kept, children int64
	var refused []Reject
	flushes := flushWhenFull(t, m, []string{"[" + page.String()[1:] + "]"}, func(batches []TableBatch, rejects []Reject) {
		kept += batches[0].Batch.NumRows()
		if len(batches) > 1 {
			require.LessOrEqual(t, batches[1].Batch.NumRows(), int64(3*202))
			children += batches[1].Batch.NumRows()
		}
		refused = append(refused, rejects...)
		release(batches, nil)
	})
	require.EqualValues(t, 39, kept)
	require.EqualValues(t, 39*202, children)
	require.Len(t, refused, 1, "only the record that fills the columns by itself is rejected")
	require.EqualValues(t, 20, refused[0].Ordinal)
	require.Contains(t, refused[0].Reason, "max_columns")
	require.Greater(t, flushes, 10)
}
