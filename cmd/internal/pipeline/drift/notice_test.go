package drift

import (
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

func shown(rows, filled int64, kind string) *Profile {
	c := map[string]ColumnProfile{"id": {rows, "int64"}}
	if filled > 0 {
		c["email"] = ColumnProfile{filled, kind}
	}
	return &Profile{At: time.Now(), Tables: map[string]TableProfile{"crm_leads": {rows, c}}}
}

func TestNotices(t *testing.T) {
	t.Parallel()
	paged, child, childless := shown(1000, 990, "text"), shown(100, 90, "text"), shown(100, 90, "text")
	paged.Page = 50
	other := *paged
	other.Page = 20
	child.Tables["crm_leads__items"] = TableProfile{300, map[string]ColumnProfile{"sku": {300, "text"}}}
	for _, c := range []struct {
		name        string
		before, now *Profile
		want        string
	}{
		{"nothing changed", shown(1000, 990, "text"), shown(1010, 992, "text"), ""},
		{"first pass", nil, shown(1000, 990, "text"), ""},
		{"a field vanished", shown(1000, 990, "text"), shown(1000, 0, ""), "warned vanished_field email"},
		{"a rare field vanished", shown(1000, 50, "text"), shown(1000, 0, ""), "noted vanished_field email"},
		{"a field vanished, with few records", shown(12, 12, "text"), shown(12, 0, ""), ""},
		{"a field is new", shown(1000, 0, ""), shown(1000, 10, "text"), "noted new_field email"},
		{"text among numbers", shown(1000, 990, "int64"), shown(1000, 990, "text"), "warned type_mix email"},
		{"fractions among numbers", shown(1000, 990, "int64"), shown(1000, 990, "decimal(12,2)"), "noted type_mix email"},
		{"a field is emptier", shown(1000, 990, "text"), shown(1000, 300, "text"), "warned null_rate email"},
		{"a field is fuller", shown(1000, 300, "text"), shown(1000, 990, "text"), "noted null_rate email"},
		{"a field is emptier, with few records", shown(10, 9, "text"), shown(10, 5, "text"), ""},
		{"the list is shorter", shown(1000, 990, "text"), shown(700, 693, "text"), "warned count "},
		{"the list is a little shorter", shown(1000, 990, "text"), shown(920, 910, "text"), ""},
		{"a short list is empty now", shown(90, 80, "text"), shown(0, 0, ""), ""},
		{"the list is longer", shown(1000, 990, "text"), shown(9000, 8900, "text"), "noted count "},
		{"the page size changed", paged, &other, "noted page_size "},
		{"a child table vanished", child, childless, "warned vanished_field "},
		{"a child table is new", childless, child, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, n := range Compare(c.before, c.now, "crm_leads") {
				got = append(got, string(n.Severity)+" "+n.Kind+" "+n.Column)
			}
			require.Equal(t, c.want, strings.Join(got, ", "))
		})
	}
}

// There is no warning if a very small table changes in any way, or if rows come and go at random.
func TestNoFalseAlarms(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		small := func(name string) *Profile {
			rows := rapid.Int64Range(0, 13).Draw(t, name)
			return shown(rows, rapid.Int64Range(0, rows).Draw(t, name+" filled"), "text")
		}
		for _, n := range Compare(small("before"), small("now"), "crm_leads") {
			require.Equal(t, Noted, n.Severity, n.Reason)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0, 1).Draw(t, "share")
		chance := func(name string) *Profile {
			rows := rapid.Int64Range(200, 300).Draw(t, name)
			var filled int64
			for range rows {
				if rapid.Float64Range(0, 1).Draw(t, "row") < share {
					filled++
				}
			}
			return shown(rows, filled, "text")
		}
		before, now := chance("before"), chance("now")
		for _, n := range Compare(before, now, "crm_leads") {
			require.True(t, n.Severity == Noted || n.Kind == NoticeCount, n.Reason)
		}
	})
}

// Another source widens a shared column. A source that sends the same values as before gets no notice, and its profile
// keeps the type of these values. A source that sends other values gets a notice, even if the column was widened
// before.
func TestWidenedByAnotherSource(t *testing.T) {
	t.Parallel()
	money := &arrow.Decimal128Type{Precision: 12, Scale: 2}
	wide := &arrow.Decimal128Type{Precision: 20, Scale: 4}
	for _, c := range []struct {
		name      string
		was, is   arrow.DataType
		sent      string
		drifts    bool
		inProfile arrow.DataType
	}{
		{"integers in a text column", schemas.Int64, schemas.Text, "7", false, schemas.Int64},
		{"text in a text column", schemas.Int64, schemas.Text, "x", true, schemas.Text},
		{"fractions in a text column", schemas.Int64, schemas.Text, "7.5", true, schemas.Text},
		{"integers in a decimal column", schemas.Int64, money, "7.00", false, schemas.Int64},
		{"fractions in a decimal column", schemas.Int64, money, "7.50", true, money},
		{"decimals in a wider decimal column", money, wide, "1234567890.1200", false, money},
		{"decimals with more digits than before", money, wide, "12345678901.1200", true, wide},
		{"decimals with more decimal places than before", money, wide, "1.1234", true, wide},
		{"dates in a text column", schemas.Date, schemas.Text, "2026-11-20", false, schemas.Date},
		{"times in a text column", schemas.Timestamp, schemas.Text, "2026-11-20T08:00:00Z", false, schemas.Timestamp},
		{"text that is not a time, in a text column", schemas.Timestamp, schemas.Text, "soon", true, schemas.Text},
		{"booleans in a text column", schemas.Bool, schemas.Text, "true", false, schemas.Bool},
		{"text in a JSON column", schemas.Text, schemas.JSON, `"x"`, false, schemas.Text},
		{"integers in a JSON column", schemas.Int64, schemas.JSON, "7", false, schemas.Int64},
		{"objects in a JSON column", schemas.Text, schemas.JSON, "{}", true, schemas.JSON},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			table := func(of arrow.DataType) schemas.Table {
				return schemas.Table{Name: "crm_leads", Columns: arrow.NewSchema([]arrow.Field{schemas.Field("v", of, "/v")}, nil)}
			}
			before := &Profile{At: time.Now(), Tables: map[string]TableProfile{"crm_leads": {100, map[string]ColumnProfile{"v": {100, schemas.TypeName(c.was)}}}}}
			f := NewProfiler(before, []schemas.Table{table(c.is)})
			for range 100 {
				b := loadtest.Batch(t, table(c.is), loadtest.Row{"v": c.sent})
				f.Add(table(c.is), b)
				b.Release()
			}
			now := f.Profile(time.Now())
			require.Equal(t, schemas.TypeName(c.inProfile), now.Tables["crm_leads"].Columns["v"].Type)
			require.Equal(t, c.drifts, len(Compare(before, now, "crm_leads")) > 0)
		})
	}
	t.Run("widened by this pass", func(t *testing.T) {
		t.Parallel()
		narrow := schemas.Table{Name: "crm_leads", Columns: arrow.NewSchema([]arrow.Field{schemas.Field("v", schemas.Int64, "/v")}, nil)}
		wider := schemas.Table{Name: "crm_leads", Columns: arrow.NewSchema([]arrow.Field{schemas.Field("v", schemas.Text, "/v")}, nil)}
		before := &Profile{At: time.Now(), Tables: map[string]TableProfile{"crm_leads": {100, map[string]ColumnProfile{"v": {100, "int64"}}}}}
		f := NewProfiler(before, []schemas.Table{narrow})
		b := loadtest.Batch(t, wider, loadtest.Row{"v": "7"})
		defer b.Release()
		f.Add(wider, b)
		require.Len(t, Compare(before, f.Profile(time.Now()), "crm_leads"), 1, "the source sends texts that look like numbers")
	})
}
