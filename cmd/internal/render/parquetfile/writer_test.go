package parquetfile

import (
	"bytes"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

// A result written as Parquet keeps its types and all digits. It may arrive in any number of batches. A result without
// rows still has columns.
func TestTypes(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		schemas.Field("id", schemas.Int64, ""), schemas.Field("price", &arrow.Decimal128Type{Precision: 38, Scale: 2}, ""),
		schemas.Field("at", schemas.Timestamp, ""), schemas.Field("tags", arrow.ListOf(schemas.Text), ""),
	}, nil)
	const rows = `[{"id":9007199254740993,"price":"0.10","at":"2024-02-29T12:00:00Z","tags":["a",null]},{"id":null,"price":null,"at":null,"tags":null}]`
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, bytes.NewReader([]byte(rows)))
	require.NoError(t, err)
	defer batch.Release()
	for name, batches := range map[string][]arrow.RecordBatch{
		"two batches": {batch, batch}, "no rows": {batch.NewSlice(0, 0)},
	} {
		var out bytes.Buffer
		p := Writer{W: &out}
		for _, b := range batches {
			require.NoError(t, p.Batch(b), name)
		}
		require.NoError(t, p.Close(), name)
		got, err := pqarrow.ReadTable(t.Context(), bytes.NewReader(out.Bytes()), parquet.NewReaderProperties(nil), pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
		require.NoError(t, err, name)
		want := array.NewTableFromRecords(schema, batches)
		require.Equal(t, want.NumRows(), got.NumRows(), name)
		for i, f := range schema.Fields() {
			require.Equal(t, f.Name, got.Schema().Field(i).Name, name)
			require.True(t, arrow.TypeEqual(f.Type, got.Schema().Field(i).Type), "%s: %s is %s", name, f.Name, got.Schema().Field(i).Type)
			require.True(t, array.ChunkedEqual(want.Column(i).Data(), got.Column(i).Data()), "%s: %s is %s", name, f.Name, got.Column(i).Data())
		}
		want.Release()
		got.Release()
	}
}

// A long result is written in several row groups. // Invariant 6
func TestRowGroups(t *testing.T) {
	ids := array.NewInt64Builder(memory.DefaultAllocator)
	defer ids.Release()
	for i := range int64(groupRows) {
		ids.Append(i)
	}
	column := ids.NewArray()
	defer column.Release()
	batch := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{schemas.Field("id", schemas.Int64, "")}, nil), []arrow.Array{column}, groupRows)
	defer batch.Release()
	var out bytes.Buffer
	p := Writer{W: &out}
	for range 3 {
		require.NoError(t, p.Batch(batch))
	}
	require.NoError(t, p.Close())
	r, err := file.NewParquetReader(bytes.NewReader(out.Bytes()))
	require.NoError(t, err)
	defer r.Close()
	require.EqualValues(t, 3*groupRows, r.NumRows())
	require.Equal(t, 3, r.NumRowGroups())
}
