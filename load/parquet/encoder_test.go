package parquet

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	pqfile "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
)

type column struct {
	typ  arrow.DataType
	draw func(r *rapid.T, b array.Builder)
}

func one[B array.Builder, T any](add func(B, T), from *rapid.Generator[T]) func(*rapid.T, array.Builder) {
	return func(r *rapid.T, b array.Builder) { add(b.(B), from.Draw(r, "value")) }
}

func columns() []column {
	digits := func(n int64) *rapid.Generator[decimal128.Num] {
		return rapid.Map(rapid.Int64Range(-n, n), decimal128.FromI64)
	}
	huge := rapid.Custom(func(r *rapid.T) decimal128.Num {
		return decimal128.New(rapid.Int64Range(-1<<61, 1<<61).Draw(r, "high"), rapid.Uint64().Draw(r, "low"))
	})
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a", "a\x00", "süd", strings.Repeat("long", 2000)}))
	out := []column{
		{schemas.Text, one((*array.StringBuilder).Append, text)},
		{schemas.Text, one((*array.StringBuilder).Append, rapid.SampledFrom([]string{"", "x", "yes"}))},
		{schemas.Int64, one((*array.Int64Builder).Append, rapid.Int64())},
		{schemas.Int64, one((*array.Int64Builder).Append, rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 0}))},
		{schemas.Timestamp, one((*array.TimestampBuilder).Append, rapid.Map(rapid.Int64Range(-1e15, 4e15), func(v int64) arrow.Timestamp { return arrow.Timestamp(v) }))},
		{schemas.Timestamp, one((*array.TimestampBuilder).Append, rapid.Just(arrow.Timestamp(1_700_000_000_000_000)))},
		{schemas.Float64, one((*array.Float64Builder).Append, rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1)})))},
		{schemas.Date, one((*array.Date32Builder).Append, rapid.Map(rapid.Int32Range(-9e5, 9e5), func(v int32) arrow.Date32 { return arrow.Date32(v) }))},
		{schemas.Bool, one((*array.BooleanBuilder).Append, rapid.Bool())},
		{&arrow.Decimal128Type{Precision: 16, Scale: 2}, one((*array.Decimal128Builder).Append, digits(1e15))},
		{&arrow.Decimal128Type{Precision: 5, Scale: 0}, one((*array.Decimal128Builder).Append, digits(3))},
		{&arrow.Decimal128Type{Precision: 38, Scale: 10}, one((*array.Decimal128Builder).Append, huge)},
	}
	for _, c := range out[:len(out):len(out)] {
		out = append(out, column{arrow.ListOf(c.typ), c.list})
	}
	return out
}

func (c column) list(r *rapid.T, b array.Builder) {
	l := b.(*array.ListBuilder)
	l.Append(true)
	for range rapid.IntRange(0, 3).Draw(r, "length") {
		c.maybe(r, l.ValueBuilder(), 4)
	}
}

func (c column) maybe(r *rapid.T, b array.Builder, rare int) {
	if rare > 0 && rapid.IntRange(1, rare).Draw(r, "null") == 1 {
		b.AppendNull()
		return
	}
	c.draw(r, b)
}

// part draws slices of longer arrays. A null list may still have elements in its array. Readers must skip these
// elements.
func part(r *rapid.T, s *arrow.Schema, of []column, rare int) ([]arrow.Array, int) {
	n := rapid.IntRange(1, 60).Draw(r, "rows")
	skip := rapid.IntRange(0, n-1).Draw(r, "skip")
	again := rapid.SampledFrom([]int{1, 1, 1, 90}).Draw(r, "again")
	out := make([]arrow.Array, len(of))
	for i, c := range of {
		b := array.NewBuilder(memory.DefaultAllocator, s.Field(i).Type)
		for range n {
			c.maybe(r, b, rare)
		}
		whole := b.NewArray()
		if again > 1 {
			parts := make([]arrow.Array, again)
			for j := range parts {
				parts[j] = whole
			}
			joined, err := array.Concatenate(parts, memory.DefaultAllocator)
			require.NoError(r, err)
			whole = joined
		}
		if l, ok := whole.(*array.List); ok && l.Len() > 1 {
			whole = hollow(l)
		}
		out[i] = array.NewSlice(whole, int64(skip), int64(whole.Len()))
	}
	return out, out[0].Len()
}

// The function hollow() makes the last list null, but keeps its elements in the array.
func hollow(l *array.List) arrow.Array {
	valid := make([]byte, (l.Len()+7)/8)
	nulls := 1
	for i := range l.Len() - 1 {
		if l.IsValid(i) {
			valid[i/8] |= 1 << (i % 8)
		} else {
			nulls++
		}
	}
	d := l.Data()
	return array.MakeFromData(array.NewData(d.DataType(), d.Len(), []*memory.Buffer{memory.NewBufferBytes(valid), d.Buffers()[1]}, d.Children(), nulls, 0))
}

func drawn(r *rapid.T) (*table, []column) {
	all := columns()
	n := rapid.IntRange(1, 5).Draw(r, "columns")
	var of []column
	var fields []arrow.Field
	for i := range n {
		c := rapid.SampledFrom(all).Draw(r, "column")
		of = append(of, c)
		name := fmt.Sprint("c", i)
		fields = append(fields, schemas.Field(name, c.typ, "/"+name))
	}
	if rapid.Bool().Draw(r, "described") {
		fields[0] = schemas.WithDescription(fields[0], "the first")
	}
	return newTable(schemas.Table{Name: "t", Columns: arrow.NewSchema(fields, nil)}, partition.Spec{}), of
}

func twice(r *rapid.T, tb testing.TB, dir, name string) (t *table, parts [][]arrow.Array, ours, theirs *file) {
	t, of := drawn(r)
	rare := rapid.SampledFrom([]int{0, 1, 2, 9}).Draw(r, "nulls")
	var rows []int
	for range rapid.IntRange(1, 3).Draw(r, "parts") {
		p, n := part(r, t.schema, of, rare)
		parts, rows = append(parts, p), append(rows, n)
	}
	w := newFileWriter(tb, t, dir, name+".ours")
	require.NoError(r, w.addAll(parts, rows))
	ours, err := w.finish(tb.Context())
	require.NoError(r, err)
	w = newFileWriter(tb, t, dir, name+".theirs")
	for i, p := range parts {
		require.NoError(r, w.add(p, rows[i]))
	}
	theirs, err = w.finish(tb.Context())
	require.NoError(r, err)
	return t, parts, ours, theirs
}

// The footer must describe each column in the same way as a footer that pqarrow writes. Texts are the exception:
// pqarrow's bounds for texts are wrong, so its files have none, and the test finds the bounds by itself.
func TestEncoder(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		at, parts, ours, theirs := twice(r, t, dir, fmt.Sprint(n))
		readBack(r, t, at, ours, parts)
		sameFooter(r, at, ours, theirs, parts)
	})
}

func readBack(r *rapid.T, t *testing.T, at *table, f *file, parts [][]arrow.Array) {
	want := make([]arrow.Array, len(at.Columns))
	for c := range want {
		var all []arrow.Array
		for _, p := range parts {
			all = append(all, p[c])
		}
		var err error
		want[c], err = array.Concatenate(all, memory.DefaultAllocator)
		require.NoError(r, err)
	}
	require.NoError(r, f.read(t.Context(), at, nil, func(first int64, b []arrow.Array, rows int) error {
		for c, got := range b {
			is := array.NewSlice(want[c], first, first+int64(rows))
			require.True(r, array.Equal(is, got), "column %d (%s): wrote %v, read %v", c, is.DataType(), is, got)
		}
		return nil
	}))
}

func sameFooter(r *rapid.T, at *table, ours, theirs *file, parts [][]arrow.Array) {
	a, err := pqfile.OpenParquetFile(ours.path(), false)
	require.NoError(r, err)
	defer a.Close()
	b, err := pqfile.OpenParquetFile(theirs.path(), false)
	require.NoError(r, err)
	defer b.Close()
	require.Equal(r, b.MetaData().Schema.String(), a.MetaData().Schema.String())
	require.Equal(r, b.MetaData().GetCreatedBy(), a.MetaData().GetCreatedBy())
	require.Equal(r, b.MetaData().KeyValueMetadata().Keys(), a.MetaData().KeyValueMetadata().Keys())
	require.Equal(r, b.MetaData().KeyValueMetadata().Values(), a.MetaData().KeyValueMetadata().Values())
	require.Equal(r, 1, a.NumRowGroups())
	for c := range a.MetaData().Schema.NumColumns() {
		x, err := a.MetaData().RowGroup(0).ColumnChunk(c)
		require.NoError(r, err)
		y, err := b.MetaData().RowGroup(0).ColumnChunk(c)
		require.NoError(r, err)
		require.Equal(r, y.NumValues(), x.NumValues())
		s, err := x.Statistics()
		require.NoError(r, err)
		u, err := y.Statistics()
		require.NoError(r, err)
		switch at.schema.Field(c).Type.ID() {
		case arrow.STRING:
			require.Nil(r, u, "pqarrow leaves out texts")
			textBounds(r, s, parts, c)
			continue
		case arrow.LIST:
			require.Nil(r, u, "pqarrow's bounds for lists miss some values and include others that do not occur")
			continue
		}
		require.Equal(r, u.HasMinMax(), s.HasMinMax())
		require.Equal(r, u.EncodeMin(), s.EncodeMin())
		require.Equal(r, u.EncodeMax(), s.EncodeMax())
		require.Equal(r, u.NullCount(), s.NullCount())
	}
}

// textBounds checks the statistics of column c, whose values are texts.
func textBounds(r *rapid.T, s metadata.TypedStatistics, parts [][]arrow.Array, c int) {
	const most = 4096 // longer bounds are left out
	var values []string
	var nulls int64
	for _, p := range parts {
		a := p[c].(*array.String)
		for i := range a.Len() {
			if a.IsNull(i) {
				nulls++
				continue
			}
			values = append(values, a.Value(i))
		}
	}
	require.Equal(r, nulls, s.NullCount())
	if len(values) == 0 {
		require.False(r, s.HasMinMax())
		return
	}
	low, high := slices.Min(values), slices.Max(values)
	require.Equal(r, len(low) <= most || len(high) <= most, s.HasMinMax())
	if len(low) <= most {
		require.Equal(r, low, string(s.EncodeMin()))
	}
	if len(high) <= most {
		require.Equal(r, high, string(s.EncodeMax()))
	}
}
