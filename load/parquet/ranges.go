package parquet

import (
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/parquet"
	pqfile "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// Range is what a catalog is told of a column's values in a file, so that engines
// pass over files in which they look for nothing.
type Range struct {
	Number    int    // of the column
	Nulls     int64  // rows in which it is null
	Low, High []byte // no value is beyond them, as Iceberg writes single values; nil: not known
}

const (
	manyRanges = 100 // columns that are told of: as many as other engines do
	longBound  = 16  // characters of a text
)

// rangesOf reads them from the footer of a file whose columns have numbers; none of
// another. Lists have none.
func rangesOf(r *pqfile.Reader) ([]Range, error) {
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

// statistics are those of a column over all row groups; nil where one has none.
// known says that the bounds are those of all values.
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

// below is a short text that is not greater than one in UTF-8.
func below(text []byte) []byte { return text[:shortened(text)] }

// above is a short text that is not less; nil where there is none.
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

// shortened is how much of a text its first characters take.
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
