package partition

import (
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Spec{
		"on":               {"on", Day, 0},
		"on:month":         {"on", Month, 0},
		"id:bucket:16":     {"id", Bucket, 16},
		"name:truncate:3":  {"name", Truncate, 3},
		"country:identity": {"country", Identity, 0},
		"created_at:hour":  {"created_at", Hour, 0},
		"created_at:year":  {"created_at", Year, 0},
	} {
		got, err := ParseOption(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
		again, err := Parse(got.String())
		require.NoError(t, err)
		require.Equal(t, want, again)
	}
	for _, text := range []string{"", ":day", "on:", "on:week", "id:bucket", "id:bucket:", "id:bucket:0", "id:bucket:-1", "id:bucket:x", "on:month:2", "id:bucket:1:2", "id:bucket:9999999999"} {
		_, err := ParseOption(text)
		require.ErrorContains(t, err, "want COLUMN, COLUMN:TRANSFORM", text)
	}
	for _, column := range []string{schemas.ColSyncedAt, schemas.ColDeletedAt, schemas.ColValidFrom, schemas.ColValidTo, schemas.ColSource} {
		_, err := ParseOption(column + ":day")
		require.ErrorContains(t, err, `"`+column+`" is penstock's own`)
	}
}

func TestCheck(t *testing.T) {
	err := Spec{"amount", Month, 0}.Check(schemas.Float64)
	require.EqualError(t, err, `partition_by=amount:month: column "amount" has the type float64, which cannot be partitioned`)
	err = Spec{"created_at", Hour, 0}.Check(schemas.Date)
	require.EqualError(t, err, `partition_by=created_at:hour: column "created_at" has the type date, which cannot be partitioned by hour; these transforms fit: identity, bucket, year, month, day`)
	require.Error(t, Spec{"doc", Identity, 0}.Check(schemas.JSON))
	require.Error(t, Spec{"tags", Identity, 0}.Check(arrow.ListOf(schemas.Text)))
	require.NoError(t, Spec{"created_at", Hour, 0}.Check(schemas.Timestamp))
}

func column(t *testing.T, of arrow.DataType, values ...string) arrow.Array {
	t.Helper()
	b := array.NewBuilder(memory.DefaultAllocator, of)
	defer b.Release()
	for _, v := range values {
		if v == "null" {
			b.AppendNull()
			continue
		}
		require.NoError(t, b.AppendValueFromString(v))
	}
	a := b.NewArray()
	t.Cleanup(a.Release)
	return a
}

// The hashes are the test values in Iceberg's specification. With 16 buckets, the hash h is in the bucket
// (h & 0x7fffffff) % 16.
func TestBuckets(t *testing.T) {
	bucket := func(h uint32) int32 { return int32(h&0x7fffffff) % 16 }
	negative := func(h int32) int32 { return bucket(uint32(h)) }
	decimal := &arrow.Decimal128Type{Precision: 9, Scale: 2}
	for _, c := range []struct {
		of    arrow.DataType
		value string
		want  int32
	}{
		{schemas.Int64, "34", bucket(2017239379)},
		{schemas.Text, "iceberg", bucket(1210000089)},
		{decimal, "14.20", negative(-500754589)},
		{schemas.Date, "2017-11-16", negative(-653330422)},
		{schemas.Timestamp, "2017-11-16 22:31:08Z", negative(-2047944441)},
	} {
		by := Spec{"x", Bucket, 16}
		got, err := by.Value(by.Parts(column(t, c.of, c.value))[0], c.of)
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.of.String())
	}
}

func TestParts(t *testing.T) {
	for _, c := range []struct {
		by     Spec
		of     arrow.DataType
		value  string
		part   string
		really any
	}{
		{Spec{"on", Year, 0}, schemas.Date, "1969-12-31", "on_year=1969", int32(-1)},
		{Spec{"on", Month, 0}, schemas.Timestamp, "1969-12-31 23:59:59Z", "on_month=1969-12", int32(-1)},
		{Spec{"on", Day, 0}, schemas.Timestamp, "1969-12-31 23:59:59Z", "on_day=1969-12-31", int32(-1)},
		{Spec{"on", Hour, 0}, schemas.Timestamp, "1969-12-31 22:59:59Z", "on_hour=1969-12-31-22", int32(-2)},
		{Spec{"on", Year, 0}, schemas.Timestamp, "9999-12-31 23:59:59-07:00", "on_year=10000", int32(8030)},
		{Spec{"on", Month, 0}, schemas.Timestamp, "9999-12-31 23:59:59-07:00", "on_month=10000-01", int32(96360)},
		{Spec{"on", Day, 0}, schemas.Timestamp, "9999-12-31 23:59:59-07:00", "on_day=10000-01-01", int32(2932897)},
		{Spec{"on", Hour, 0}, schemas.Timestamp, "9999-12-31 23:59:59-07:00", "on_hour=10000-01-01-06", int32(2932897*24 + 6)},
		{Spec{"on", Day, 0}, schemas.Timestamp, "2024-02-29 23:59:59Z", "on_day=2024-02-29", int32(19782)},
		{Spec{"on", Identity, 0}, schemas.Date, "1970-01-03", "on_identity=1970-01-03", int32(2)},
		{Spec{"id", Truncate, 10}, schemas.Int64, "-1", "id_trunc_10=-10", int64(-10)},
		{Spec{"id", Identity, 0}, schemas.Int64, "-1", "id_identity=-1", int64(-1)},
		{Spec{"ok", Identity, 0}, schemas.Bool, "true", "ok_identity=1", true},
		{Spec{"name", Truncate, 2}, schemas.Text, "äöü", "name_trunc_2=%C3%A4%C3%B6", "äö"},
		{Spec{"name", Truncate, 9}, schemas.Text, "a/b", "name_trunc_9=a%2Fb", "a/b"},
		{Spec{"name", Identity, 0}, schemas.Text, "", "name_identity=", ""},
		{Spec{"name", Identity, 0}, schemas.Text, null, "name_identity=%5F_HIVE_DEFAULT_PARTITION__", null},
		{Spec{"name", Identity, 0}, schemas.Text, "null", "name_identity=" + null, nil},
	} {
		part := c.by.Parts(column(t, c.of, c.value))[0]
		require.Equal(t, c.part, part)
		got, err := c.by.Value(part, c.of)
		require.NoError(t, err)
		require.Equal(t, c.really, got)
	}
}

func TestKeeps(t *testing.T) {
	require.True(t, Spec{"on", Day, 0}.Keeps(schemas.Date, schemas.Timestamp))
	require.False(t, Spec{"on", Bucket, 4}.Keeps(schemas.Date, schemas.Timestamp))
	require.False(t, Spec{"on", Identity, 0}.Keeps(schemas.Date, schemas.Timestamp))
	require.False(t, Spec{"id", Bucket, 4}.Keeps(schemas.Int64, schemas.Text))
	require.True(t, Spec{"id", Bucket, 4}.Keeps(schemas.Text, schemas.Text))
}

func TestYearsBeforeZero(t *testing.T) {
	b := array.NewTimestampBuilder(memory.DefaultAllocator, schemas.Timestamp.(*arrow.TimestampType))
	defer b.Release()
	b.Append(arrow.Timestamp(time.Date(-4, 2, 29, 5, 0, 0, 0, time.UTC).UnixMicro()))
	a := b.NewArray()
	defer a.Release()
	for by, want := range map[Transform]int32{Year: -1974, Month: -1974*12 + 1, Day: -720930, Hour: -720930*24 + 5} {
		by := Spec{"at", by, 0}
		part := by.Parts(a)[0]
		got, err := by.Value(part, schemas.Timestamp)
		require.NoError(t, err)
		require.Equal(t, want, got, part)
	}
}

func TestEmptyPart(t *testing.T) {
	for _, by := range []Spec{{"x", Identity, 0}, {"x", Truncate, 1}, {"x", Bucket, 4}, {"x", Day, 0}} {
		_, err := by.Value("", schemas.Text)
		require.Error(t, err, by)
	}
}

func TestFolder(t *testing.T) {
	by := Spec{"name", Identity, 0}
	seen := map[string]bool{}
	for _, text := range []string{strings.Repeat("ä", 90), strings.Repeat("a/", 100), strings.Repeat("ä", 91), strings.Repeat("🦊", 50), "a" + strings.Repeat("🦊", 50), "aa" + strings.Repeat("🦊", 50)} {
		folder := Folder(by.Parts(column(t, schemas.Text, text))[0])
		require.False(t, seen[folder])
		seen[folder] = true
		require.LessOrEqual(t, len(folder), 200)
		decoded, err := url.PathUnescape(folder)
		require.NoError(t, err)
		require.True(t, utf8.ValidString(decoded))
	}
}
