package schemas

import (
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestColumn(t *testing.T) {
	tests := map[string]string{
		"id":                            "id",
		"userID":                        "user_id",
		"HTMLBody":                      "html_body",
		"assign_user_Id":                "assign_user_id",
		"recentLeads":                   "recent_leads",
		"creditNoteApplications":        "credit_note_applications",
		"invoice_Draft_percentage":      "invoice_draft_percentage",
		"RequestData":                   "request_data",
		"HRA":                           "hra",
		"line1":                         "line1",
		"address2Line":                  "address2_line",
		"2fa":                           "2fa",
		"order":                         "order", // names are always quoted in SQL, so no word is special
		"select":                        "select",
		"_id":                           "_id",
		"/billing_address/city":         "billing_address__city",
		"/_context/stage/id":            "_context__stage__id",
		"/contacts/leadSource/ownerID":  "contacts__lead_source__owner_id",
		"/billing_address/address_line": "billing_address__address_line",
		"":                              "value",
	}
	for source, want := range tests {
		require.Equal(t, want, Column(source), "Column(%q)", source)
	}
}

func TestColumnSeparatesWords(t *testing.T) {
	tests := map[string]string{
		"first-name":  "first_name",
		"Last Name":   "last_name",
		"@odata.etag": "odata_etag",
		"user-ID":     "user_id",
		"Total (EUR)": "total_eur",
		"a.b":         "a_b",
		"a b":         "a_b",
		`a"b`:         "a_b",
		"a'b":         "a_b",
		"a;--":        "a",
		"%s":          "s",
		"$1":          "1",
		"{x}":         "x",
		"a/b":         "a_b",
		"/a-b/c d":    "a_b__c_d",
		"VAT №":       "vat",
		"größe":       "größe",
		"GRÖSSE":      "grösse",
		"税号":          "税号",
	}
	for source, want := range tests {
		require.Equal(t, want, Column(source), "Column(%q)", source)
	}
}

func TestColumnWithSuffix(t *testing.T) {
	tests := map[string]string{ // expected names, without the eight digits of the hash
		"/":                      "_",
		" ":                      "_",
		"a__b":                   "a_b_", // "a__b" would be the member b of a
		"a_":                     "a_",
		"a-_b":                   "a_b_",
		"e\u0301":                "e\u0301_", // e and a combining accent, two runes
		"\u212b":                 "å_",       // the Ångström sign
		"ısı":                    "ısı_",
		"🦤":                      "_",
		"\u202eevil\xff":         "evil_",
		"a\xffb":                 "a_b_",
		"ctid":                   "ctid_",
		"xmin":                   "xmin_",
		"tableOID":               "table_oid", // table_oid is not a reserved name
		"tableoid":               "tableoid_",
		"rowid":                  "rowid_",
		"_penstock_ord":          "penstock_ord_",
		"_penstock_hash":         "penstock_hash_",
		"_Penstock_Hash":         "penstock_hash_",
		"@_penstock_hash":        "penstock_hash_",
		"/_penstock/hash":        "penstock__hash_",
		strings.Repeat("a", 64):  strings.Repeat("a", 54) + "_",
		strings.Repeat("ä", 40):  strings.Repeat("ä", 27) + "_",
		strings.Repeat("ab", 31): strings.Repeat("ab", 31),
	}
	for source, prefix := range tests {
		got := Column(source)
		require.True(t, strings.HasPrefix(got, prefix), "Column(%q) = %q, want %q…", source, got, prefix)
		if strings.HasSuffix(prefix, "_") {
			require.Regexp(t, `^[0-9a-f]{8}$`, got[len(prefix):], "Column(%q) = %q", source, got)
		}
	}
}

func TestColumnNormalFormsDiffer(t *testing.T) {
	composed, decomposed := Column("é"), Column("e\u0301")
	require.NotEqual(t, composed, decomposed)
	require.NotEqual(t, Column("\u1100\u1161"), Column("가"), "a Hangul syllable as two letters and as one character")
	require.NotEqual(t, Column("\u212b"), Column("\u00c5"), "the Ångström sign and the letter Å")
}

func TestColumnsOfLongNamesDiffer(t *testing.T) {
	a, b := strings.Repeat("x", 63)+"a", strings.Repeat("x", 63)+"b"
	require.NotEqual(t, Column(a), Column(b))
	require.Len(t, Column(strings.Repeat("x", 1000)), MaxName)
}

func TestNamerKeepsCasesApart(t *testing.T) {
	n := NewNamer(nil)
	got := []string{n.Name("name"), n.Name("Name"), n.Name("NAME")}
	require.Equal(t, "name", got[0])
	require.Regexp(t, `^name_[0-9a-f]{8}$`, got[1])
	require.Regexp(t, `^name_[0-9a-f]{8}$`, got[2])
	require.NotEqual(t, got[1], got[2])
	require.Equal(t, got[1], n.Name("/Name"), "a member's name and its pointer are one source")
}

func TestNamerKeepsSeparatorsApart(t *testing.T) {
	n := NewNamer(nil)
	require.Equal(t, "first_name", n.Name("first-name"))
	require.Equal(t, "last_name", n.Name("last-name"))
	require.Regexp(t, `^first_name_[0-9a-f]{8}$`, n.Name("first_name"))
	require.Regexp(t, `^first_name_[0-9a-f]{8}$`, n.Name("first name"))
	require.Equal(t, "first_name", n.Name("/first-name"), "a field keeps its column")
}

func TestNamerKeepsNestingApart(t *testing.T) {
	n := NewNamer(nil)
	require.Equal(t, "customer", n.Name("/customer"))
	require.Equal(t, "customer__id", n.Name("/customer/id"))
	require.Regexp(t, `^customer_id_[0-9a-f]{8}$`, n.Name("/customer__id"))
	require.Equal(t, "customer_id", n.Name("/customer_id"))
}

func TestNamerKeepsExistingColumns(t *testing.T) {
	n := NewNamer(map[string]string{"/Total": "total", "/total": "total_1"})
	require.Equal(t, "total_1", n.Name("total"))
	require.Equal(t, "total", n.Name("Total"))
	n.Reserve("Note")
	require.Regexp(t, `^note_[0-9a-f]{8}$`, n.Name("note"), "there is a column Note")
}

func TestNamerKeepsAName(t *testing.T) {
	n := NewNamer(nil)
	n.Keep("codigo")
	require.Regexp(t, `^c[oó]digo_[0-9a-f]{8}$`, n.Name("código"))
	require.Equal(t, "codigo", n.Name("codigo"))
	require.Regexp(t, `^codigo_[0-9a-f]{8}$`, n.Name("Codigo"), "Keep reserves the name for one field only")
}

func TestNamerLengthensTakenHash(t *testing.T) {
	short := Column("a__b")
	n := NewNamer(nil)
	require.Equal(t, short, n.Name("/"+short), "a field of the source may have a name that looks shortened")
	longer := n.Name("a__b")
	require.Equal(t, "a_b_", longer[:4])
	require.Len(t, longer, len("a_b_")+16)
}

func TestTableNamer(t *testing.T) {
	n := NewTableNamer("sales_invoices", nil)
	require.Equal(t, "sales_invoices__items", n.Name("/items"))
	require.Equal(t, "sales_invoices__items__taxes", n.Name("/items/taxes"))
	require.Regexp(t, `^sales_invoices__items_[0-9a-f]{8}$`, n.Name("/Items"))
	long := n.Name("/" + strings.Repeat("x", 50))
	require.Len(t, long, MaxName)
	require.Regexp(t, `^sales_invoices__x+_[0-9a-f]{8}$`, long)
}

func sources() *rapid.Generator[string] {
	hostile := rapid.SampledFrom([]string{
		"name", "Name", "NAME", "naMe", "na_me", "_name", "name_", "na__me", "é", "e\u0301", "", " ", "a b", "a.b", "a-b",
		"_penstock_hash", "penstock_hash", "_PENSTOCK_HASH", "ctid", "CTID", "🦤", "\u202e", "ẞ", "ß", "SS", "K", "\u212a", "\xff", "\xfe",
		strings.Repeat("x", 70), strings.Repeat("x", 71), strings.Repeat("ü", 40), strings.Repeat("x", 54) + "_y",
	})
	member := rapid.OneOf(hostile, rapid.String(), rapid.StringMatching(`[aAbB_]{0,4}`))
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for _, m := range rapid.SliceOfN(member, 1, 3).Draw(t, "members") {
			b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(m))
		}
		return b.String()
	})
}

func TestNamerIsInjectiveAndStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfNDistinct(sources(), 1, 20, rapid.ID[string]).Draw(t, "sources")
		first := name(NewNamer(nil), all)
		by := make(map[string]string)
		for source, column := range first {
			if len(column) > MaxName || column == "" || !utf8.ValidString(column) {
				t.Fatalf("Name(%q) = %q", source, column)
			}
			if strings.HasPrefix(column, "_penstock_") {
				t.Fatalf("Name(%q) = %q, which is penstock's own", source, column)
			}
			if other, ok := by[strings.ToLower(column)]; ok {
				t.Fatalf("%q and %q have the same name %q", source, other, column)
			}
			by[strings.ToLower(column)] = source
		}
		if again := name(NewNamer(nil), all); !maps.Equal(first, again) {
			t.Fatalf("the second time, the names differ: %q, then %q", first, again)
		}
		shuffled := rapid.Permutation(all).Draw(t, "shuffled")
		if again := name(NewNamer(first), shuffled); !maps.Equal(first, again) {
			t.Fatalf("in another order, the names differ: %q, then %q", first, again)
		}
	})
}

func name(n *Namer, sources []string) map[string]string {
	columns := make(map[string]string)
	for _, s := range sources {
		columns[s] = n.Name(s)
	}
	return columns
}

func TestColumnKeepsCanonicalNames(t *testing.T) {
	canonical := rapid.StringMatching(`[a-z][a-z0-9]{0,9}(_[a-z0-9]{1,9}){0,4}`)
	rapid.Check(t, func(t *rapid.T) {
		s := canonical.Filter(func(s string) bool { return !systemColumns[s] }).Draw(t, "name")
		if got := Column(s); got != s {
			t.Fatalf("Column(%q) = %q", s, got)
		}
	})
}

func FuzzColumn(f *testing.F) {
	for _, s := range []string{"userID", "/a/b", "/a~1b/~0", "é", "a__b", "_penstock_x", "", "/", "//", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		got := Column(source)
		require.Equal(t, got, Column(source))
		require.LessOrEqual(t, len(got), MaxName)
		require.True(t, utf8.ValidString(got), "%q", got)
		require.Equal(t, strings.ToLower(got), got)
		n := NewNamer(nil)
		require.Equal(t, got, n.Name(source))
	})
}

func TestTableNamerKeepsTheRoot(t *testing.T) {
	root := strings.Repeat("x", maxTable)
	for _, place := range []string{"/items", "/a-very-long-name-of-a-member-and-another/one-below-it", "/ä", "/1"} {
		name := NewTableNamer(root, nil).Name(place)
		require.LessOrEqual(t, len(name), MaxName)
		require.True(t, strings.HasPrefix(name, root+"__"), "%s: %s", place, name)
	}
}
