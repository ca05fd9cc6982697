package encode

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	pqfile "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// Range describes the values of a column in a file, for a catalog. With it, engines can skip files that contain no
// matching rows.
type Range struct {
	Number    int    // field ID of the column
	Size      int64  // compressed bytes of the column
	Nulls     int64  // number of nulls
	Low, High []byte // bounds of all values, in Iceberg's single-value serialization; nil: unknown
}

const (
	manyRanges = 100 // number of columns for which ranges are written; other engines use the same number
	longBound  = 16  // length of the longest bound for a text, in characters
)

// Ranges returns the ranges of the columns with a field ID. For some columns of texts, it takes the range from the
// second argument, which is the result of [Writer.Texts].
func Ranges(r *pqfile.Reader, texts map[int]Range) ([]Range, error) {
	var out []Range
	root := r.MetaData().Schema.Root()
	for i := 0; i < root.NumFields() && len(out) < manyRanges; i++ {
		number := int(root.Field(i).FieldID())
		if number <= 0 || r.MetaData().Schema.Column(i).MaxRepetitionLevel() > 0 {
			continue
		}
		groups, err := statistics(r, i)
		if err != nil {
			return nil, err
		}
		size, err := compressed(r, i)
		if err != nil {
			return nil, err
		}
		if one, counted := texts[i]; counted {
			one.Number, one.Size = number, size
			out = append(out, one)
		} else if len(groups) > 0 {
			one := rangeOf(number, groups)
			one.Size = size
			out = append(out, one)
		}
	}
	return out, nil
}

// compressed returns the compressed size of a column in the file, in bytes.
func compressed(r *pqfile.Reader, column int) (size int64, err error) {
	for g := range r.NumRowGroups() {
		chunk, err := r.MetaData().RowGroup(g).ColumnChunk(column)
		if err != nil {
			return 0, err
		}
		size += chunk.TotalCompressedSize()
	}
	return size, nil
}

// rangeOf computes the range of a column from the statistics of its row groups.
func rangeOf(number int, groups []metadata.TypedStatistics) Range {
	out := Range{Number: number}
	var values []metadata.TypedStatistics // statistics of the groups that have values
	for _, g := range groups {
		out.Nulls += g.NullCount()
		if g.NumValues() > 0 {
			values = append(values, g)
		}
	}
	switch {
	case len(values) == 0 || slices.ContainsFunc(values, func(g metadata.TypedStatistics) bool { return !g.HasMinMax() }):
	case values[0].Type() == parquet.Types.ByteArray:
		out.Low, out.High = textBounds(values)
	default:
		for _, g := range values[1:] {
			values[0].Merge(g)
		}
		out.Low, out.High = values[0].EncodeMin(), values[0].EncodeMax()
	}
	return out
}

// textBounds combines the bounds of texts in several row groups. It does not use arrow-go's method Merge, because this
// method leaves out groups whose lowest text is "". A bound that is too long for the footer is read as "". So if an
// upper bound is "", the real bound is unknown.
func textBounds(groups []metadata.TypedStatistics) (low, high []byte) {
	low, high = groups[0].EncodeMin(), groups[0].EncodeMax()
	for _, g := range groups {
		if bytes.Compare(g.EncodeMin(), low) < 0 {
			low = g.EncodeMin()
		}
		if bytes.Compare(g.EncodeMax(), high) > 0 {
			high = g.EncodeMax()
		}
		if len(g.EncodeMax()) == 0 {
			return below(low), nil
		}
	}
	return below(low), above(high)
}

// statistics returns the statistics of a column in each row group. It returns nil if a row group has none.
func statistics(r *pqfile.Reader, column int) (groups []metadata.TypedStatistics, err error) {
	for g := range r.NumRowGroups() {
		chunk, err := r.MetaData().RowGroup(g).ColumnChunk(column)
		if err != nil {
			return nil, err
		}
		one, err := chunk.Statistics()
		if err != nil || one == nil || !one.HasNullCount() {
			return nil, err
		}
		groups = append(groups, one)
	}
	return groups, nil
}

func below(text []byte) []byte { return text[:shortened(text)] }

func above(text []byte) []byte {
	n := shortened(text)
	if n == len(text) {
		return text
	}
	for n > 0 {
		last, size := utf8.DecodeLastRune(text[:n])
		n -= size
		if next := last + 1; utf8.ValidRune(next) {
			return utf8.AppendRune(text[:n:n], next)
		}
	}
	return nil
}

func shortened(text []byte) int {
	n := 0
	for range longBound {
		if n == len(text) {
			break
		}
		_, size := utf8.DecodeRune(text[n:])
		n += size
	}
	return n
}

// textRange computes the range of a column of texts while the texts are written.
type textRange struct {
	low, high string // shortened
	nulls     int64
	some      bool // at least one text was added
	endless   bool // the highest text has no upper bound that is short enough to be written
}

func (t *textRange) add(v string) {
	if !t.some || v < t.low {
		t.low = string(below([]byte(v)))
	}
	if !t.endless && (!t.some || v > t.high) {
		high := above([]byte(v))
		t.high, t.endless = string(high), high == nil
	}
	t.some = true
}

func (w *Writer) countTexts(columns []arrow.Array) {
	for i, a := range columns {
		texts, ok := a.(*array.String)
		if !ok {
			continue
		}
		if w.texts == nil {
			w.texts = map[int]*textRange{}
		}
		t := w.texts[i]
		if t == nil {
			t = &textRange{}
			w.texts[i] = t
		}
		t.nulls += int64(texts.NullN())
		for j := range texts.Len() {
			if texts.IsValid(j) {
				t.add(texts.Value(j))
			}
		}
	}
}

// Texts returns the range of each column of texts that Add has written. The keys are the indexes of the columns.
func (w *Writer) Texts() map[int]Range {
	out := map[int]Range{}
	for i, t := range w.texts {
		one := Range{Nulls: t.nulls}
		if t.some {
			one.Low = []byte(t.low)
		}
		if t.some && !t.endless {
			one.High = []byte(t.high)
		}
		out[i] = one
	}
	return out
}
