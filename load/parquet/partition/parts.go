package partition

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/twmb/murmur3"
	"github.com/zeebo/xxh3"
)

// null takes the place of the value in the name of a partition, if the column is null in the partition's rows. Hive
// uses this text too, and programs that read partition folders know it.
const null = "__HIVE_DEFAULT_PARTITION__"

const (
	day         = 24 * hour
	hour        = 3_600_000_000 // in microseconds, as the timestamps of a column
	longestPart = 180
)

// prefix returns the part of a partition's name up to and including the equals sign. The text before this sign is not
// the name of the column, because readers would then take the rest as the value of the column.
func (b Spec) prefix() string {
	if b.Transform == Identity {
		return escape(b.Column) + "_identity="
	}
	return escape(b.Field()) + "="
}

// Null returns the partition of rows without a value.
func (b Spec) Null() string { return b.prefix() + null }

// Parts returns the partition of each value of a column, such as issued_on_month=2026-11. The column's type must fit:
// see [Spec.Check].
func (b Spec) Parts(a arrow.Array) []string {
	out, prefix := make([]string, a.Len()), b.prefix()
	if texts, ok := a.(*array.String); ok && b.Transform != Bucket {
		fill(out, a, prefix+null, func(i int) string { return b.cut(texts.Value(i)) }, func(text string) string { return prefix + escape(text) })
		return out
	}
	fill(out, a, prefix+null, func(i int) int64 { return b.number(a, i) }, func(n int64) string { return prefix + b.format(n, a.DataType()) })
	return out
}

// fill writes the partition of each row to out. It calls name() only once for each distinct value, because many rows
// have the same value.
func fill[V comparable](out []string, a arrow.Array, null string, value func(row int) V, name func(V) string) {
	names := map[V]string{}
	for i := range out {
		if a.IsNull(i) {
			out[i] = null
			continue
		}
		v := value(i)
		part, ok := names[v]
		if !ok {
			part = name(v)
			names[v] = part
		}
		out[i] = part
	}
}

// cut returns the first characters of a text, or all of it if the transform is identity.
func (b Spec) cut(text string) string {
	if b.Transform != Truncate {
		return text
	}
	n := 0
	for i := range text {
		if n == b.Width {
			return text[:i]
		}
		n++
	}
	return text
}

// number returns the partition of row i as a number.
func (b Spec) number(a arrow.Array, i int) int64 {
	switch a := a.(type) {
	case *array.String:
		return b.bucket([]byte(a.Value(i)))
	case *array.Decimal128:
		return b.bucket(shortest(a.Value(i)))
	case *array.Boolean:
		if a.Value(i) {
			return 1
		}
		return 0
	case *array.Int64:
		return b.whole(a.Value(i))
	case *array.Date32:
		if n := int64(a.Value(i)); b.Transform == Bucket || b.Transform == Identity {
			return b.whole(n)
		}
		return b.instant(int64(a.Value(i)) * day)
	case *array.Timestamp:
		if b.Transform == Bucket {
			return b.whole(int64(a.Value(i)))
		}
		return b.instant(int64(a.Value(i)))
	}
	return 0
}

func (b Spec) whole(n int64) int64 {
	switch b.Transform {
	case Bucket:
		return b.bucket(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	case Truncate:
		return n - floorMod(n, int64(b.Width))
	}
	return n
}

// instant returns the number of years, months, days or hours since 1970.
func (b Spec) instant(micros int64) int64 {
	switch b.Transform {
	case Hour:
		return (micros - floorMod(micros, hour)) / hour
	case Day:
		return (micros - floorMod(micros, day)) / day
	}
	at := time.UnixMicro(micros).UTC()
	if b.Transform == Year {
		return int64(at.Year() - 1970)
	}
	return int64(at.Year()-1970)*12 + int64(at.Month()) - 1
}

func floorMod(n, by int64) int64 { return (n%by + by) % by }

// bucket hashes a value as Iceberg prescribes, so that other engines find the same bucket.
func (b Spec) bucket(value []byte) int64 {
	return int64(murmur3.Sum32(value)&math.MaxInt32) % int64(b.Width)
}

// shortest returns the shortest two's complement of a decimal's digits, the highest byte first.
func shortest(n decimal128.Num) []byte {
	out := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(n.HighBits())), n.LowBits())
	sign := byte(n.HighBits() >> 63)
	for len(out) > 1 && out[0] == sign && out[1]&0x80 == sign&0x80 {
		out = out[1:]
	}
	return out
}

// layouts has the layouts in which the partitions of years, months, days and hours are written. Until the year 9999,
// these texts sort in the order of the times.
var layouts = map[Transform]string{Year: "2006", Month: "2006-01", Day: time.DateOnly, Hour: "2006-01-02-15"}

func (b Spec) format(n int64, t arrow.DataType) string {
	switch b.Transform {
	case Year:
		return fmt.Sprintf("%04d", 1970+n)
	case Month:
		return time.Date(1970, time.Month(1+n), 1, 0, 0, 0, 0, time.UTC).Format(layouts[Month])
	case Day:
		return time.Unix(n*86400, 0).UTC().Format(layouts[Day])
	case Hour:
		return time.Unix(n*3600, 0).UTC().Format(layouts[Hour])
	}
	if b.Transform == Identity && t.ID() == arrow.DATE32 {
		return time.Unix(n*86400, 0).UTC().Format(time.DateOnly)
	}
	return strconv.FormatInt(n, 10)
}

// Value returns the value of a partition in Iceberg: an int32 for buckets, dates, and years, months, days or hours
// since 1970; otherwise a bool, int64 or string. It returns nil for the partition of rows without a value.
func (b Spec) Value(part string, t arrow.DataType) (any, error) {
	_, text, ok := strings.Cut(part, "=")
	if !ok {
		return nil, fmt.Errorf("read partition %q: it has no value", part)
	}
	if text == null {
		return nil, nil
	}
	value, err := b.value(text, t)
	if err != nil {
		return nil, fmt.Errorf("read partition %s: %w", part, err)
	}
	return value, nil
}

func (b Spec) value(text string, t arrow.DataType) (any, error) {
	layout, timed := layouts[b.Transform]
	if b.Transform == Identity && t.ID() == arrow.DATE32 {
		layout, timed = time.DateOnly, true
	}
	switch {
	case timed:
		at, err := parseTime(layout, text)
		if b.Transform == Identity {
			return int32(Spec{Transform: Day}.instant(at.UnixMicro())), err
		}
		return int32(b.instant(at.UnixMicro())), err
	case b.Transform == Bucket:
		n, err := strconv.ParseInt(text, 10, 32)
		return int32(n), err
	case t.ID() == arrow.BOOL:
		return text == "1", nil
	case t.ID() == arrow.INT64:
		return strconv.ParseInt(text, 10, 64)
	}
	return url.PathUnescape(text)
}

// parseTime reads a time whose text begins with the year, in the given layout. The package time reads only years of
// four digits.
func parseTime(layout, text string) (time.Time, error) {
	n := len(text) - len(strings.TrimPrefix(layout, "2006"))
	if n < 1 {
		return time.Time{}, fmt.Errorf("%q is not a time", text)
	}
	year, err := strconv.Atoi(text[:n])
	if err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(layout, "2000"+text[n:]) // a leap year has every day
	return at.AddDate(year-2000, 0, 0), err
}

// escape writes bytes that are special in file systems or file patterns as %XX. Different texts have different results,
// and no result is equal to the constant null.
func escape(text string) string {
	var out strings.Builder
	for i := range len(text) {
		c := text[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_'
		if plain && (i > 0 || text != null) {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

// Folder returns the name of the folder for the files of a partition. It is the partition's name, or a shorter name if
// a file system could not store that. The shorter name ends after a whole character, because readers such as DuckDB
// refuse a name that does not decode to UTF-8.
func Folder(part string) string {
	if len(part) <= longestPart {
		return part
	}
	short := part[:longestPart]
	for !decodes(short) {
		short = short[:len(short)-1]
	}
	return fmt.Sprintf("%s-%016x", short, xxh3.HashString(part))
}

func decodes(name string) bool {
	text, err := url.PathUnescape(name)
	return err == nil && utf8.ValidString(text)
}
