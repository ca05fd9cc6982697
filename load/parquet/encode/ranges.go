package encode

import (
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/parquet"
	pqfile "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// Range describes the values of a column in a file, for a catalog. With it, engines can skip files without matching
// rows.
type Range struct {
	Number    int    // field ID of the column
	Nulls     int64  // number of nulls
	Low, High []byte // bounds of all values, in Iceberg's single-value serialization; nil: unknown
}

const (
	manyRanges = 100 // number of columns for which ranges are written; other engines write as many
	longBound  = 16  // length of the longest bound for a text, in characters
)

// Ranges returns the ranges of the columns with a field ID.
func Ranges(r *pqfile.Reader) ([]Range, error) {
	var out []Range
	root := r.MetaData().Schema.Root()
	for i := 0; i < root.NumFields() && len(out) < manyRanges; i++ {
		number := int(root.Field(i).FieldID())
		if number <= 0 || r.MetaData().Schema.Column(i).MaxRepetitionLevel() > 0 {
			continue
		}
		all, known, err := statistics(r, i)
		if err != nil {
			return nil, err
		}
		if all == nil {
			continue
		}
		one := Range{Number: number, Nulls: all.NullCount()}
		if known && all.HasMinMax() {
			one.Low, one.High = all.EncodeMin(), all.EncodeMax()
			if all.Type() == parquet.Types.ByteArray {
				one.Low, one.High = below(one.Low), above(one.High)
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// statistics merges the statistics of a column over all row groups. It returns nil if a row group has none. known
// reports whether the bounds cover all values.
func statistics(r *pqfile.Reader, column int) (all metadata.TypedStatistics, known bool, err error) {
	known = true
	for g := range r.NumRowGroups() {
		group := r.MetaData().RowGroup(g)
		chunk, err := group.ColumnChunk(column)
		if err != nil {
			return nil, false, err
		}
		one, err := chunk.Statistics()
		if err != nil || one == nil || !one.HasNullCount() {
			return nil, false, err
		}
		known = known && (one.HasMinMax() || one.NullCount() == group.NumRows())
		if all == nil {
			all = one
		} else {
			all.Merge(one)
		}
	}
	return all, known, nil
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
