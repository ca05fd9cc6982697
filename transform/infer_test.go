package transform

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func amounts(id int, values ...string) string {
	records := make([]string, len(values))
	for i, v := range values {
		records[i] = fmt.Sprintf(`{"id":%d,"a":%s}`, id+i, v)
	}
	return "[" + strings.Join(records, ",") + "]"
}

func quoted(n int, format string) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprintf(format, i)
	}
	return values
}

func TestQuotedDecimals(t *testing.T) {
	sound := quoted(quotedDecimals, `"%d.50"`)
	for _, tt := range []struct {
		name   string
		values []string
		want   string
	}{
		{"one scale", sound, "decimal(16,2)"},
		{"with nulls", append([]string{"null", "null"}, sound...), "decimal(16,2)"},
		{"negative ones", append([]string{`"-7.25"`}, sound...), "decimal(16,2)"},
		{"too few", sound[1:], "text"},
		{"no fraction", quoted(quotedDecimals, `"%d"`), "text"},
		{"two scales", append([]string{`"7.125"`}, sound...), "text"},
		{"a word", append([]string{`"n/a"`}, sound...), "text"},
		{"leading zeros", append([]string{`"007.50"`}, sound...), "text"},
		{"an exponent", append([]string{`"7.50e1"`}, sound...), "text"},
		{"a negative zero", append([]string{`"-0.00"`}, sound...), "text"},
		{"texts and a number", append([]string{`7.50`}, sound...), "decimal(16,2)"},
		{"numbers", quoted(quotedDecimals, `%d.50`), "decimal(16,2)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := mustMap(t, keyedStream, amounts(1, tt.values...))
			a, typ := out.table("").column("/a")
			require.Equal(t, tt.want, schemas.TypeName(typ))
			require.Empty(t, out.rejects)
			require.Equal(t, len(tt.values), a.Len())
			hash := out.table("").own(schemas.ColHash)
			require.Equal(t, 0, hash.NullN())
		})
	}
}

// A decimal column of the destination accepts quoted decimals, even if there are only few. Other values are kept, and
// widen the column. A text column stays text.
func TestQuotedDecimalsOfKnownTable(t *testing.T) {
	table := func(typ string) schemas.Table {
		m := NewMapper(keyedStream, testStamp, nil)
		defer m.Close()
		values := quoted(quotedDecimals, `"%d.50"`)
		if typ == "text" {
			values[0] = `"x"`
		}
		require.NoError(t, appendAll(m, []byte(amounts(1, values...))))
		batches, _ := m.Flush()
		defer mapped{batches: batches}.release()
		return batches[0].Table
	}
	for _, tt := range []struct{ known, value, want, cell string }{
		{"decimal", `"7.25"`, "decimal(16,2)", "29/4"},
		{"decimal", `"7.125"`, "decimal(17,3)", "57/8"},
		{"decimal", `"n/a"`, "text", `"n/a"`},
		{"decimal", `"7.50 EUR"`, "text", `"7.50 EUR"`},
		{"decimal", `"007.50"`, "text", `"007.50"`},
		{"decimal", `7.25`, "decimal(16,2)", "29/4"},
		{"text", `"7.25"`, "text", `"7.25"`},
	} {
		t.Run(tt.known+" "+tt.value, func(t *testing.T) {
			m := NewMapper(keyedStream, testStamp, []schemas.Table{table(tt.known)})
			defer m.Close()
			require.NoError(t, appendAll(m, []byte(amounts(1, tt.value, `"1.50"`))))
			batches, rejects := m.Flush()
			out := mapped{batches: batches}
			defer out.release()
			require.Empty(t, rejects)
			a, typ := out.table("").column("/a")
			require.Equal(t, tt.want, schemas.TypeName(typ))
			require.Equal(t, tt.cell, arrowCell(a, 0))
		})
	}
}

func TestQuotedDecimalsOverPages(t *testing.T) {
	m := NewMapper(keyedStream, testStamp, nil)
	defer m.Close()
	for i := 0; i < 1200; i += 100 {
		require.NoError(t, appendAll(m, []byte(amounts(i, quoted(100, `"%d.50"`)...))))
	}
	first, _ := m.Flush()
	require.NoError(t, appendAll(m, []byte(amounts(5000, `"9.75"`))))
	second, _ := m.Flush()
	for _, batches := range [][]TableBatch{first, second} {
		out := mapped{batches: batches}
		_, typ := out.table("").column("/a")
		require.Equal(t, "decimal(16,2)", schemas.TypeName(typ))
		out.release()
	}
}
