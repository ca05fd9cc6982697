package parquet

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/load/parquet/values"
	"github.com/penstock-data/penstock/schemas"
)

// fingerprint is a hash of a row's key. In a table without a key, it is a hash of the row's hash. Two keys practically
// never have the same fingerprint.
type fingerprint = xxh3.Uint128

func (t *table) identity() []string {
	if len(t.Key) > 0 {
		return t.Key
	}
	return []string{schemas.ColHash}
}

func fingerprints(columns []arrow.Array, rows int) []fingerprint {
	out := make([]fingerprint, rows)
	if len(columns) == 1 {
		fingerprintsOf(columns[0], out)
		return out
	}
	var buf []byte
	for i := range out {
		buf = buf[:0]
		for _, c := range columns {
			start := len(buf)
			buf = appendCell(append(buf, 0, 0, 0, 0), c, i)
			binary.LittleEndian.PutUint32(buf[start:], uint32(len(buf)-start))
		}
		out[i] = xxh3.Hash128(buf)
	}
	return out
}

func fingerprintsOf(c arrow.Array, out []fingerprint) {
	switch c := c.(type) {
	case *array.Int64:
		var b [8]byte
		for i, v := range c.Int64Values() {
			binary.LittleEndian.PutUint64(b[:], uint64(v))
			out[i] = xxh3.Hash128(b[:])
		}
	case *array.String:
		for i := range out {
			out[i] = xxh3.HashString128(c.Value(i))
		}
	default:
		var buf []byte
		for i := range out {
			buf = appendCell(buf[:0], c, i)
			out[i] = xxh3.Hash128(buf)
		}
	}
}

func appendCell(dst []byte, c arrow.Array, i int) []byte {
	if c.IsNull(i) {
		return append(dst, 0)
	}
	return values.AppendText(dst, c, i)
}

// links returns the fingerprints of all links that child rows of the records may have, and for each fingerprint the
// index of its record.
//
// A link is the value by which a child row refers to its record. If the key is one column, the link is the key's value.
// Otherwise it is the JSON array of the key's values. Such an array may have been written in several forms: see
// [spellings].
func links(keys []arrow.Array, types []arrow.DataType, link arrow.DataType, rows int) (prints []fingerprint, records []int32) {
	if len(keys) == 1 {
		wide := values.Cast(keys[0], types[0], schemas.Join(types[0], link))
		defer wide.Release()
		prints = fingerprints([]arrow.Array{wide}, rows)
		for i := range prints {
			records = append(records, int32(i))
		}
		return prints, records
	}
	for i := range rows {
		texts := [][]byte{{'['}}
		for k, c := range keys {
			var longer [][]byte
			for _, value := range spellings(c, types[k], i) {
				for _, text := range texts {
					if len(text) > 1 {
						text = append(slices.Clip(text), ',')
					}
					longer = append(longer, append(slices.Clip(text), value...))
				}
			}
			texts = longer
		}
		for _, text := range texts {
			prints = append(prints, xxh3.Hash128(append(text, ']')))
			records = append(records, int32(i))
		}
	}
	return prints, records
}

// spellings returns the ways in which a key's value may be written in links. A link may have been written before the
// type of the key column changed. So a text that looks like a number or a boolean may have been written without quotes.
// A decimal may have been written as an integer.
func spellings(c arrow.Array, t arrow.DataType, i int) [][]byte {
	out := [][]byte{values.AppendJSON(nil, c, t, i)}
	switch c := c.(type) {
	case *array.String:
		if text := c.Value(i); schemas.SameType(t, schemas.Text) && looksBare(text) {
			out = append(out, []byte(text))
		}
	case *array.Decimal128:
		if whole, fraction, _ := bytes.Cut(out[0], []byte(".")); len(bytes.Trim(fraction, "0")) == 0 && len(fraction) > 0 {
			out = append(out, slices.Clone(whole))
		}
	}
	return out
}

func looksBare(text string) bool {
	if text == "true" || text == "false" {
		return true
	}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil && strings.Trim(text, "-.0123456789") == ""
}

func linkPrints(column arrow.Array, link arrow.DataType, key []arrow.DataType, rows int) []fingerprint {
	if len(key) != 1 {
		return fingerprints([]arrow.Array{column}, rows)
	}
	wide := values.Cast(column, link, schemas.Join(key[0], link))
	defer wide.Release()
	return fingerprints([]arrow.Array{wide}, rows)
}

func (t *table) keyTypes() []arrow.DataType {
	var out []arrow.DataType
	for _, k := range t.identity() {
		out = append(out, t.typeOf(k))
	}
	return out
}
