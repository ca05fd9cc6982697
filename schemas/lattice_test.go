package schemas

import (
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func scalars() *rapid.Generator[arrow.DataType] {
	fixed := rapid.SampledFrom([]arrow.DataType{Bool, Int64, Float64, Date, Timestamp, Text})
	decimals := rapid.Custom(func(t *rapid.T) arrow.DataType {
		d, ok := Decimal(rapid.Int32Range(0, 38).Draw(t, "digits"), rapid.Int32Range(0, 38).Draw(t, "scale"))
		if !ok {
			return Text // too many digits for a decimal
		}
		return d
	})
	return rapid.OneOf(fixed, decimals)
}

func types() *rapid.Generator[arrow.DataType] {
	lists := rapid.Map(scalars(), func(t arrow.DataType) arrow.DataType { return arrow.ListOf(t) })
	return rapid.OneOf(scalars(), lists, rapid.SampledFrom([]arrow.DataType{Null, Empty, JSON}))
}

// equal compares two types. Unlike Arrow, it distinguishes JSON from text.
func equal(a, b arrow.DataType) bool { return same(a, b) && a.String() == b.String() }

func TestJoinIsALattice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := types().Draw(t, "a"), types().Draw(t, "b"), types().Draw(t, "c")
		if got := Join(a, a); !equal(got, a) {
			t.Fatalf("Join(%v, %v) = %v", a, a, got)
		}
		if x, y := Join(a, b), Join(b, a); !equal(x, y) {
			t.Fatalf("Join(%v, %v) = %v, the other way round %v", a, b, x, y)
		}
		if x, y := Join(Join(a, b), c), Join(a, Join(b, c)); !equal(x, y) {
			t.Fatalf("Join(Join(%v, %v), %v) = %v, Join(%[1]v, Join(%[2]v, %[3]v)) = %[5]v", a, b, c, x, y)
		}
		if got := Join(a, Join(a, b)); !equal(got, Join(a, b)) {
			t.Fatalf("Join(%v, %v) is not above %[1]v: joined again it is %[3]v", a, b, got)
		}
	})
}

func TestJoinIgnoresOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen := rapid.SliceOfN(types(), 1, 12).Draw(t, "seen")
		again := append(rapid.Permutation(seen).Draw(t, "again"), rapid.SampledFrom(seen).Draw(t, "repeated"))
		if x, y := fold(seen), fold(again); !equal(x, y) {
			t.Fatalf("in the order %v: %v, in the order %v: %v", seen, x, again, y)
		}
	})
}

func fold(seen []arrow.DataType) arrow.DataType {
	t := Null
	for _, s := range seen {
		t = Join(t, s)
	}
	return t
}

type sample struct {
	json string
	fits func(arrow.DataType) bool
}

func ranks(of ...int) func(arrow.DataType) bool {
	return func(t arrow.DataType) bool { return slices.Contains(of, rank(t)) }
}

func digits(before, after int32) func(arrow.DataType) bool {
	return func(t arrow.DataType) bool {
		if d, ok := t.(*arrow.Decimal128Type); ok {
			return d.Precision-d.Scale >= before && d.Scale >= after
		}
		return after == 0 && before < 19 && rank(t) == rankInt || ranks(rankText, rankJSON)(t)
	}
}

func listOf(fits func(arrow.DataType) bool) func(arrow.DataType) bool {
	return func(t arrow.DataType) bool {
		l, ok := t.(*arrow.ListType)
		return ok && fits(l.Elem()) || rank(t) == rankJSON
	}
}

var samples = []sample{
	{`null`, func(arrow.DataType) bool { return true }},
	{`[]`, func(t arrow.DataType) bool { return rank(t) >= rankEmpty }}, // a column of scalars stores [] as null
	{`true`, ranks(rankBool, rankText, rankJSON)},
	{`7`, digits(1, 0)},
	{`-123456789012345678`, digits(18, 0)},
	{`1250.00`, digits(4, 2)},
	{`0.123456789012345678901234567890`, digits(0, 30)},
	{`99999999999999999999999999999999999999`, digits(38, 0)},
	{`1e300`, ranks(rankFloat, rankText, rankJSON)},
	{`"2026-11-20"`, ranks(rankDate, rankText, rankJSON)},
	{`"2026-11-20T10:05:00Z"`, ranks(rankTimestamp, rankText, rankJSON)},
	{`"Zoë"`, ranks(rankText, rankJSON)},
	{`[true]`, listOf(ranks(rankBool, rankText))},
	{`[1.5]`, listOf(digits(1, 1))},
	{`["a"]`, listOf(ranks(rankText))},
	{`{"1":"a"}`, ranks(rankJSON)},
}

func TestJoinHoldsValuesOfBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := types().Draw(t, "a"), types().Draw(t, "b")
		joined := Join(a, b)
		for _, s := range samples {
			if (s.fits(a) || s.fits(b)) && !s.fits(joined) {
				t.Fatalf("Join(%v, %v) = %v does not hold %s", a, b, joined, s.json)
			}
		}
	})
}

func TestJoin(t *testing.T) {
	money := mustParse(t, "decimal")
	tests := []struct{ a, b, want arrow.DataType }{
		{Null, Date, Date},
		{Null, Empty, Empty},
		{Empty, Int64, Int64},
		{Empty, arrow.ListOf(Int64), arrow.ListOf(Int64)},
		{Bool, Int64, Text},
		{Int64, Float64, Text},
		{Int64, money, mustParse(t, "decimal(21,2)")},
		{money, mustParse(t, "decimal(18,4)"), mustParse(t, "decimal(18,4)")},
		{mustParse(t, "decimal(38,0)"), money, Text},
		{Date, Timestamp, Text},
		{Text, JSON, JSON},
		{arrow.ListOf(Int64), Int64, JSON},
		{arrow.ListOf(Int64), arrow.ListOf(Text), arrow.ListOf(Text)},
		{arrow.ListOf(Int64), arrow.ListOf(arrow.ListOf(Int64)), JSON},
	}
	for _, tt := range tests {
		require.True(t, equal(Join(tt.a, tt.b), tt.want), "Join(%v, %v) = %v, want %v", tt.a, tt.b, Join(tt.a, tt.b), tt.want)
	}
}

func mustParse(t *testing.T, s string) arrow.DataType {
	t.Helper()
	d, err := ParseType(s)
	require.NoError(t, err)
	return d
}

func TestParseType(t *testing.T) {
	tests := []struct {
		in   string
		want arrow.DataType
	}{
		{"bool", Bool}, {"int64", Int64}, {"float64", Float64}, {"date", Date},
		{"timestamp", Timestamp}, {"text", Text}, {"json", JSON},
		{"decimal", &arrow.Decimal128Type{Precision: 16, Scale: 2}},
		{"decimal(5,2)", &arrow.Decimal128Type{Precision: 16, Scale: 2}},
		{"decimal(20,5)", &arrow.Decimal128Type{Precision: 24, Scale: 5}},
		{"decimal(38,0)", &arrow.Decimal128Type{Precision: 38, Scale: 0}},
		{"decimal(24,24)", &arrow.Decimal128Type{Precision: 38, Scale: 24}},
	}
	for _, tt := range tests {
		got, err := ParseType(tt.in)
		require.NoError(t, err, tt.in)
		require.True(t, equal(got, tt.want), "ParseType(%q) = %v, want %v", tt.in, got, tt.want)
	}
	for _, bad := range []string{"", "int", "decimal(2,5)", "decimal(39,0)", "decimal(38,38)", "decimal(1)", "decimal(99,99)", "JSON", "text "} {
		_, err := ParseType(bad)
		require.Error(t, err, bad)
	}
}

func FuzzParseType(f *testing.F) {
	for _, s := range []string{"bool", "decimal", "decimal(16,2)", "decimal(0,0)", "decimal(1,99)", "(", "json"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseType(s)
		if err != nil {
			return
		}
		again, err := ParseType(declared(got))
		require.NoError(t, err, "%q as %q", s, declared(got))
		require.True(t, equal(got, again), "ParseType(%q) = %v, ParseType(%q) = %v", s, got, declared(got), again)
		require.True(t, equal(got, Join(got, Null)))
	})
}

func declared(t arrow.DataType) string {
	switch t {
	case Bool:
		return "bool"
	case Int64:
		return "int64"
	case Float64:
		return "float64"
	case Date:
		return "date"
	case Timestamp:
		return "timestamp"
	case Text:
		return "text"
	case JSON:
		return "json"
	}
	d := t.(*arrow.Decimal128Type)
	return fmt.Sprintf("decimal(%d,%d)", d.Precision, d.Scale)
}

func TestFieldKeepsTypeAndSource(t *testing.T) {
	for _, want := range []arrow.DataType{Text, JSON, Date, arrow.ListOf(Text)} {
		f := Field("a", want, "/a~1b")
		require.True(t, equal(TypeOf(f), want), "TypeOf(Field(%v)) = %v", want, TypeOf(f))
		require.Equal(t, "/a~1b", Source(f))
		require.True(t, f.Nullable)
	}
	require.Empty(t, Source(arrow.Field{Name: ColHash, Type: Text}))
}

func TestRankPanicsOnForeignType(t *testing.T) {
	require.PanicsWithValue(t, "schemas: uint8 is not a type of the lattice", func() {
		Join(arrow.PrimitiveTypes.Uint8, Text)
	})
}
