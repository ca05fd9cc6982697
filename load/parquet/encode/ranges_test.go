package encode

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	pqfile "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestShortBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune{utf8.MaxRune, 0xd7ff, 0xffff, 'a'}))).Draw(t, "text"))
		low, high := below(text), above(text)
		require.LessOrEqual(t, bytes.Compare(low, text), 0)
		require.LessOrEqual(t, utf8.RuneCount(low), longBound)
		require.True(t, utf8.Valid(low))
		if high != nil {
			require.GreaterOrEqual(t, bytes.Compare(high, text), 0)
			require.LessOrEqual(t, utf8.RuneCount(high), longBound)
			require.True(t, utf8.Valid(high))
		} else {
			require.Greater(t, utf8.RuneCount(text), longBound)
		}
	})
}

// The function numbered() returns a schema with one column of the given type: texts, or lists of texts. The column has
// a field ID.
func numbered(of arrow.DataType) *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: "c", Type: of, Nullable: true, Metadata: arrow.MetadataFrom(map[string]string{"PARQUET:field_id": "1"})}}, nil)
}

// emptyTexts has batches of texts for which arrow-go computes wrong statistics: the statistics ignore the text "", or
// the other texts of the same batch.
var emptyTexts = map[string][][]string{
	"a batch of empty texts": {{""}, {"x"}},
	"many empty texts":       {{"", "", ""}, {"x", "y"}, {""}},
	"with other texts":       {{"", "zzz"}, {"b", "c"}},
	"at the end":             {{"b", "c"}, {"zzz", ""}},
}

// All values are within the bounds, whichever writer has written the file. // Invariant 11
func TestBoundsIncludeEmptyTexts(t *testing.T) {
	writers := map[string]func(*Writer, [][]arrow.Array, []int) error{
		"all at once": (*Writer).AddAll,
		"batch by batch": func(w *Writer, batches [][]arrow.Array, rows []int) error {
			for i, b := range batches {
				if err := w.Add(b, rows[i]); err != nil {
					return err
				}
			}
			return nil
		},
	}
	for name, batches := range emptyTexts {
		for by, write := range writers {
			for _, many := range []int{1, 60_000} { // the second fills several pages
				t.Run(fmt.Sprint(name, " ", by, " ", many), func(t *testing.T) {
					var parts [][]arrow.Array
					var rows []int
					for _, texts := range batches {
						all := strings.Split(strings.Repeat(strings.Join(texts, "\n")+"\n", many), "\n")
						a := listed(all[:len(all)-1])
						parts, rows = append(parts, []arrow.Array{a}), append(rows, a.Len())
					}
					var out bytes.Buffer
					w := New(numbered(arrow.BinaryTypes.String), &out, &Pool{})
					require.NoError(t, write(w, parts, rows))
					require.NoError(t, w.Finish())
					within(t, w, out.Bytes(), batches)
				})
			}
		}
	}
}

// The function within() checks the bounds in a file that has these texts.
func within(t *testing.T, w *Writer, written []byte, batches [][]string) {
	t.Helper()
	var texts map[int]Range
	if w != nil {
		texts = w.Texts()
	}
	r, err := pqfile.NewParquetReader(bytes.NewReader(written))
	require.NoError(t, err)
	if r.NumRowGroups() == 1 {
		chunk, err := r.MetaData().RowGroup(0).ColumnChunk(0)
		require.NoError(t, err)
		s, err := chunk.Statistics()
		require.NoError(t, err)
		if s != nil && s.HasMinMax() {
			require.LessOrEqual(t, string(s.EncodeMin()), slices.Min(slices.Concat(batches...)), "the minimum in the footer")
		}
	}
	ranges, err := Ranges(r, texts)
	require.NoError(t, err)
	if len(texts) > 0 {
		require.Len(t, ranges, 1)
		require.Empty(t, ranges[0].Low)
		require.NotNil(t, ranges[0].Low)
		require.NotNil(t, ranges[0].High)
	}
	for _, one := range ranges {
		for _, texts := range batches {
			for _, text := range texts {
				if one.Low != nil {
					require.LessOrEqual(t, string(one.Low), text)
				}
				if one.High != nil {
					require.GreaterOrEqual(t, string(one.High), text)
				}
			}
		}
	}
}

// A bound that is too long is not in the footer. Then the range has no such bound.
func TestRangeOfALongText(t *testing.T) {
	for _, batch := range [][]string{{"a", strings.Repeat("z", 2*statBytes)}, {"", strings.Repeat("z", 2*statBytes)}, {strings.Repeat("a", 2*statBytes), "z"}, {"", ""}} {
		var out bytes.Buffer
		w := New(numbered(arrow.BinaryTypes.String), &out, &Pool{})
		require.NoError(t, w.AddAll([][]arrow.Array{{listed(batch)}}, []int{len(batch)}))
		require.NoError(t, w.Finish())
		within(t, w, out.Bytes(), [][]string{batch})
	}
}

// The ranges of a file cover all of its row groups.
func TestRangesOfRowGroups(t *testing.T) {
	groups := [][]string{{"b", "c"}, {"", "zzz"}, {"d"}}
	var out bytes.Buffer
	s := numbered(arrow.BinaryTypes.String)
	w, err := pqarrow.NewFileWriter(s, &out, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	for _, texts := range groups {
		b := array.NewRecordBatch(s, []arrow.Array{listed(texts)}, int64(len(texts)))
		require.NoError(t, w.Write(b))
	}
	require.NoError(t, w.Close())
	within(t, nil, out.Bytes(), groups)
}
