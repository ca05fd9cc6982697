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

// Only columns with values take memory, even in a wide table. // Invariants 6 and 11
func TestColumnsWithoutValuesTakeNoMemory(t *testing.T) {
	s := schemas.Stream{Name: "x.things", Table: schemas.Table{Name: "x_things", Key: []string{"id"}}}
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	m := NewMapper(s, Stamp{Run: "r"}, nil)
	m.SetAllocator(mem)
	defer m.Close()
	values := []string{"1", `"text"`, "true", "1.25", `"2024-01-02"`, `"2024-01-02T03:04:05Z"`, `[1,2]`, `[1,{"a":[]}]`}
	var wide strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&wide, `,"m%04d":%s`, i, values[i%len(values)])
	}
	require.NoError(t, appendAll(m, []byte(`[{"id":0`+wide.String()+`}]`)))
	release(m.Flush())
	before := mem.CurrentAlloc()

	rows := joinedRecords(20_000)
	require.NoError(t, appendAll(m, []byte(rows)))
	require.Less(t, m.Bytes(), int64(4<<20))
	batches, rejects := m.Flush()
	require.Empty(t, rejects)
	require.Len(t, batches, 1)
	require.Less(t, mem.CurrentAlloc()-before, 8<<20, "20,000 rows of 1,000 columns")
	b := batches[0].Batch
	require.EqualValues(t, 20_000, b.NumRows())
	for i, f := range b.Schema().Fields() {
		a := b.Column(i)
		require.Equal(t, 20_000, a.Len(), f.Name)
		if strings.HasPrefix(f.Name, "m") {
			require.Equal(t, 20_000, a.NullN(), f.Name)
			require.True(t, a.IsNull(0) && a.IsNull(19_999))
			require.True(t, arrow.TypeEqual(f.Type, a.DataType()) || f.Type.ID() == arrow.EXTENSION, f.Name)
			if text, ok := a.(*array.String); ok {
				require.Empty(t, text.Value(19_999))
			}
		}
	}
	release(batches, nil)

	require.NoError(t, appendAll(m, []byte(`[{"id":1`+wide.String()+`},{"id":2}]`)))
	batches, _ = m.Flush()
	at := batches[0].Batch.Schema().FieldIndices("m0000")[0]
	require.Equal(t, 1, batches[0].Batch.Column(at).NullN())
	require.Equal(t, "1", batches[0].Batch.Column(at).ValueStr(0))
	release(batches, nil)
}

// A record whose rows need too much memory is rejected. Other records are kept. // Invariants 6 and 11
func TestRecordOfManyWideRows(t *testing.T) {
	s := schemas.Stream{Name: "x.things", Table: schemas.Table{Name: "x_things", Key: []string{"id"}}}
	m := NewMapper(s, Stamp{Run: "r"}, nil)
	defer m.Close()
	var wide strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&wide, `,"m%04d":1`, i)
	}
	all := "{" + wide.String()[1:] + "}"
	rows := []int64{0, 0}
	var rejects []Reject
	flushWhenFull(t, m, []string{`[{"id":1,"rows":[` + all + `]},{"id":2,"rows":[` + strings.Repeat("{},", 30_000) + all + strings.Repeat(",{}", 5_000) + `]},{"id":3,"rows":[{},` + all + `]}]`}, func(batches []TableBatch, refused []Reject) {
		for i, b := range batches {
			rows[i] += b.Batch.NumRows()
		}
		rejects = append(rejects, refused...)
		release(batches, nil)
	})
	require.Len(t, rejects, 1)
	require.True(t, rejects[0].Record)
	require.Contains(t, rejects[0].Reason, "max_columns")
	require.Equal(t, []int64{2, 3}, rows)
}

func joinedRecords(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"id":%d}`, i+1)
	}
	return "[" + b.String()[1:] + "]"
}

func release(batches []TableBatch, _ []Reject) {
	for _, b := range batches {
		b.Batch.Release()
	}
}
