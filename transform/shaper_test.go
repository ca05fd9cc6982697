package transform

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

type shaped struct {
	mapped
	filtered, rejected int64
	err                error
}

func shape(t *testing.T, s schemas.Stream, known []schemas.Table, pages ...string) shaped {
	t.Helper()
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	m := NewMapper(s, testStamp, known)
	m.SetAllocator(mem)
	sh, err := NewShaper(m, false)
	require.NoError(t, err)
	var out shaped
	for _, page := range pages {
		require.NoError(t, appendAll(m, []byte(page)))
		batches, rejects := m.Flush()
		out.rejects = append(out.rejects, rejects...)
		batches, rejects, err := sh.Shape(batches)
		out.batches = append(out.batches, batches...)
		out.rejects = append(out.rejects, rejects...)
		if err != nil {
			out.err = err
		}
	}
	out.filtered, out.rejected = sh.Filtered(), sh.Rejected()
	t.Cleanup(func() {
		out.release()
		m.Close()
		mem.AssertSize(t, 0)
	})
	return out
}

// cells returns each column of a table as a text, such as `id: 1 2`.
func (s shaped) cells(table string) []string {
	var out []string
	for _, b := range s.batches {
		if b.Table.Name != table {
			continue
		}
		for i, f := range b.Batch.Schema().Fields() {
			if !strings.HasPrefix(f.Name, "_penstock_") {
				out = append(out, f.Name+": "+lines(b.Batch.Column(i)))
			}
		}
	}
	return out
}

func (s shaped) column(table, name string) string {
	for _, b := range s.batches {
		if i := b.Batch.Schema().FieldIndices(name); b.Table.Name == table && len(i) > 0 {
			return lines(b.Batch.Column(i[0]))
		}
	}
	return ""
}

func ruledStream(r schemas.Rules) schemas.Stream {
	r.MaskKey = "0123456789abcdef"
	return schemas.Stream{Name: "m.t", Table: schemas.Table{Name: "t", Key: []string{"id"}}, Rules: r}
}

func masks(pairs ...string) (rules []schemas.MaskRule) {
	for i := 0; i < len(pairs); i += 2 {
		rules = append(rules, schemas.MaskRule{Column: pairs[i], Mask: schemas.Mask{Action: pairs[i+1]}})
	}
	return rules
}

func TestShaperMasks(t *testing.T) {
	for _, tt := range []struct {
		name string
		mask schemas.Mask
		page string
		want string
	}{
		{"hmac", schemas.Mask{Action: "hmac"}, `[{"id":1,"x":"a"},{"id":2,"x":"a"},{"id":3,"x":null},{"id":4,"x":""}]`,
			`"` + hmacOf("a") + `" "` + hmacOf("a") + `" null ""`},
		{"hmac of a number", schemas.Mask{Action: "hmac"}, `[{"id":1,"x":5.50},{"id":2,"x":"5.50"}]`, `"` + hmacOf("5.50") + `" "` + hmacOf("5.50") + `"`},
		{"hash", schemas.Mask{Action: "hash"}, `[{"id":1,"x":"abc"}]`, `"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"`},
		{"hash in base64url", schemas.Mask{Action: "hash", Encoding: "base64url"}, `[{"id":1,"x":"abc"}]`, `"ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"`},
		{"redact", schemas.Mask{Action: "redact"}, `[{"id":1,"x":true},{"id":2,"x":null}]`, `"[redacted]" null`},
		{"redact with another text", schemas.Mask{Action: "redact", With: "x"}, `[{"id":1,"x":12}]`, `"x"`},
		{"email", schemas.Mask{Action: "email"}, `[{"id":1,"x":"ann@example.com"},{"id":2,"x":"ann"},{"id":3,"x":"a@b@c"},{"id":4,"x":"Ann <a@b.c>"}]`,
			`"***@example.com" "***" "***" "***"`},
		{"partial", schemas.Mask{Action: "partial"}, `[{"id":1,"x":"DE12345678"},{"id":2,"x":"12345"},{"id":3,"x":"ñandúes"},{"id":4,"x":7}]`,
			`"***5678" "***45" "***úes" "***"`},
		{"partial with another length", schemas.Mask{Action: "partial", Keep: 2}, `[{"id":1,"x":"DE12345678"}]`, `"***78"`},
		{"round integers", schemas.Mask{Action: "round"}, `[{"id":1,"x":149},{"id":2,"x":150},{"id":3,"x":-151},{"id":4,"x":9223372036854775807}]`,
			`100 200 -200 9223372036854775800`},
		{"round decimals", schemas.Mask{Action: "round", To: "1000"}, `[{"id":1,"x":1499.99},{"id":2,"x":-1500.00},{"id":3,"x":0.5}]`, `1000 -2000 0`},
		{"round numbers of text", schemas.Mask{Action: "round"}, `[{"id":1,"x":"1250.00"},{"id":2,"x":"n/a"},{"id":3,"x":"99999999999999999999999999999999999999999.9"}]`,
			`"1300" null "100000000000000000000000000000000000000000"`},
		{"round dates", schemas.Mask{Action: "round"}, `[{"id":1,"x":"1984-07-30"}]`, `1984-07-01`},
		{"round instants", schemas.Mask{Action: "round", To: "year"}, `[{"id":1,"x":"1984-07-30T10:00:00Z"},{"id":2,"x":"1969-12-31T23:59:59.9Z"}]`,
			`1984-01-01T00:00:00Z 1969-01-01T00:00:00Z`},
		{"round of a boolean", schemas.Mask{Action: "round"}, `[{"id":1,"x":true}]`, `null`},
		{"list", schemas.Mask{Action: "hash"}, `[{"id":1,"x":["abc",null]},{"id":2,"x":[]}]`,
			`["ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",null] []`},
		{"redact a list and a scalar", schemas.Mask{Action: "redact", With: "#"}, `[{"id":1,"x":["abc",[1]]},{"id":2,"x":7},{"id":3,"x":"s"}]`,
			`"[\"#\",[\"#\"]]" "\"#\"" "\"#\""`},
		{"round numbers in a list", schemas.Mask{Action: "round"}, `[{"id":1,"x":[151,249]}]`, `[200,200]`},
		{"drop", schemas.Mask{Action: "drop"}, `[{"id":1,"x":["abc",[1]]},{"id":2,"x":7}]`, ``},
		{"keep", schemas.Mask{Action: "keep"}, `[{"id":1,"x":7}]`, `7`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := shape(t, ruledStream(schemas.Rules{Masks: []schemas.MaskRule{{Column: "x", Mask: tt.mask}}}), nil, tt.page)
			require.NoError(t, out.err)
			require.Empty(t, out.rejects)
			require.Equal(t, tt.want, out.column("t", "x"))
		})
	}
}

func hmacOf(text string) string {
	k, _ := newMasker(schemas.Mask{Action: schemas.MaskHMAC}, "0123456789abcdef")
	return string(k.append(nil, []byte(text)))
}

const nestedPage = `[{"id":1,"name":"Ann","contact":{"email":"a@x.y","city":"Bonn","deep":{"very":{"email":"d@x.y","n":1}}},
	"items":[{"note":"n1","email":"i@x.y","taxes":[{"rate":5,"email":"t@x.y"},{"rate":7}]},{"note":"n2","taxes":[{"rate":9}]}]},
	{"id":2,"name":"Bob","contact":"a@x.y","items":[]}]`

func TestShaperNested(t *testing.T) {
	out := shape(t, ruledStream(schemas.Rules{Masks: masks("email", "email", "items__note", "drop")}), nil, nestedPage)
	require.NoError(t, out.err)
	require.Equal(t, []string{`id: 1 2`, `name: "Ann" "Bob"`, `contact: null "a@x.y"`, `contact__email: "***@x.y" null`, `contact__city: "Bonn" null`,
		`contact__deep__very: "{\"email\":\"***@x.y\",\"n\":1}" null`}, out.cells("t"))
	require.Equal(t, []string{`email: "***@x.y" null`}, out.cells("t__items"))
	require.Equal(t, []string{`rate: 5 7 9`, `email: "***@x.y" null null`}, out.cells("t__items__taxes"))
}

func TestShaperMaskOfObject(t *testing.T) {
	out := shape(t, ruledStream(schemas.Rules{Masks: append(masks("contact", "redact", "items", "drop"), schemas.MaskRule{Column: "contact__city", Mask: schemas.Mask{Action: "keep"}})}), nil, nestedPage)
	require.Equal(t, []string{`id: 1 2`, `name: "Ann" "Bob"`, `contact: null "[redacted]"`, `contact__email: "[redacted]" null`, `contact__city: "Bonn" null`,
		`contact__deep__very: "{\"email\":\"[redacted]\",\"n\":\"[redacted]\"}" null`}, out.cells("t"))
	require.Empty(t, out.cells("t__items"))
}

func TestShaperSelect(t *testing.T) {
	out := shape(t, ruledStream(schemas.Rules{Select: []string{"contact__city", "items__taxes__rate"}}), nil, nestedPage)
	require.Equal(t, []string{`id: 1 2`, `contact__city: "Bonn" null`}, out.cells("t"))
	require.Empty(t, out.cells("t__items"))
	require.Equal(t, "0 1", out.column("t__items", schemas.ColIndex), "the rows of items are kept for their taxes")
	require.Equal(t, []string{`rate: 5 7 9`}, out.cells("t__items__taxes"))
}

func TestShaperRename(t *testing.T) {
	s := ruledStream(schemas.Rules{Rename: map[string]string{"id": "number", "contact__email": "mail", "items__note": "remark"}})
	out := shape(t, s, nil, nestedPage)
	require.Equal(t, []string{"number"}, out.batches[0].Table.Key)
	require.Equal(t, `1 2`, out.column("t", "number"))
	require.Equal(t, `"a@x.y" null`, out.column("t", "mail"))
	require.Equal(t, `"n1" "n2"`, out.column("t__items", "remark"))
	require.Equal(t, `1 1`, out.column("t__items", schemas.ColParent))

	again := shape(t, s, tablesOf(out), `[{"id":"k","contact":{"email":5}}]`)
	require.Equal(t, `"k"`, again.column("t", "number"))
	require.Equal(t, `"5"`, again.column("t", "mail"))

	s.Rules.Rename = map[string]string{"name": "id"}
	require.ErrorContains(t, shape(t, s, nil, nestedPage).err, "rename column name of t: a column id already exists")
}

func tablesOf(s shaped) (tables []schemas.Table) {
	for _, b := range s.batches {
		tables = append(tables, b.Table)
	}
	return tables
}

func TestShaperMasksKeys(t *testing.T) {
	out := shape(t, ruledStream(schemas.Rules{Masks: masks("id", "hmac")}), nil, nestedPage)
	one, two := hmacOf("1"), hmacOf("2")
	require.Equal(t, fmt.Sprintf(`"%s" "%s"`, one, two), out.column("t", "id"))
	require.Equal(t, fmt.Sprintf(`"%s" "%s"`, one, one), out.column("t__items", schemas.ColParent))
	require.Equal(t, fmt.Sprintf(`"%s/0" "%s/0" "%s/1"`, one, one, one), out.column("t__items__taxes", schemas.ColParent))
	require.Equal(t, fmt.Sprintf(`"%s" "%s" "%s"`, one, one, one), out.column("t__items__taxes", schemas.ColRoot))

	s := ruledStream(schemas.Rules{Masks: masks("name", "hmac")})
	s.Key = []string{"id", "name"}
	out = shape(t, s, nil, nestedPage)
	require.Equal(t, strings.Repeat(fmt.Sprintf(` "[1,\"%s\"]"`, hmacOf("Ann")), 2)[1:], out.column("t__items", schemas.ColParent))
	require.Contains(t, out.column("t__items__taxes", schemas.ColParent), `\"]/1"`)

	s.Key = nil
	out = shape(t, s, nil, nestedPage)
	hashes := strings.Fields(out.column("t", schemas.ColHash))
	require.Equal(t, strings.Repeat(" "+strings.TrimSuffix(hashes[0], `"`)+`-0"`, 2)[1:], out.column("t__items", schemas.ColParent))
	require.Equal(t, hashes[0]+" "+hashes[0], out.column("t__items", schemas.ColHash))

	for _, action := range []string{"drop", "redact", "round", "email", "partial"} {
		_, err := NewShaper(NewMapper(ruledStream(schemas.Rules{Masks: masks("id", action)}), testStamp, nil), false)
		require.ErrorContains(t, err, "key column id")
	}
	keyless := ruledStream(schemas.Rules{Masks: masks("name", "hmac")})
	keyless.Rules.MaskKey = ""
	_, err := NewShaper(NewMapper(keyless, testStamp, nil), false)
	require.ErrorIs(t, err, errNoKey)
}

func str(s string) *string { return &s }

func TestShaperFilter(t *testing.T) {
	yes, no := true, false
	const page = `[{"id":1,"s":"open","a":10,"d":"2026-01-31","t":"2026-01-31T12:00:00Z","b":true,"c":[{"x":1}]},
		{"id":2,"s":"won","a":10.5,"d":"2026-02-01","t":"2026-02-01T00:00:00Z","b":false},
		{"id":3,"s":"5","a":-3,"c":[{"x":2},{"x":3}]},{"id":4,"a":1e3}]`
	for _, tt := range []struct {
		name string
		by   schemas.Condition
		want string
	}{
		{"in", schemas.Condition{Column: "s", In: []string{"open", "won"}}, "1 2"},
		{"in, a number as text", schemas.Condition{Column: "s", In: []string{"5.0"}}, "3"},
		{"in numbers", schemas.Condition{Column: "a", In: []string{"10.50", "1000"}}, "2 4"},
		{"in booleans", schemas.Condition{Column: "b", In: []string{"false"}}, "2"},
		{"not in", schemas.Condition{Column: "s", NotIn: []string{"open"}}, "2 3 4"},
		{"min", schemas.Condition{Column: "a", Min: str("10.1")}, "2 4"},
		{"min is inclusive", schemas.Condition{Column: "a", Min: str("10")}, "1 2 4"},
		{"max", schemas.Condition{Column: "a", Max: str("0")}, "3"},
		{"min date", schemas.Condition{Column: "d", Min: str("2026-02-01")}, "2"},
		{"max instant", schemas.Condition{Column: "t", Max: str("2026-01-31")}, ""},
		{"min instant with a zone", schemas.Condition{Column: "t", Min: str("2026-02-01T01:00:00+02:00")}, "2"},
		{"min, a number as text", schemas.Condition{Column: "s", Min: str("4")}, "3"},
		{"min text", schemas.Condition{Column: "s", Min: str("p")}, "2"},
		{"null", schemas.Condition{Column: "s", Null: &yes}, "4"},
		{"not null", schemas.Condition{Column: "s", Null: &no}, "1 2 3"},
		{"null in a missing column", schemas.Condition{Column: "zzz", Null: &yes}, "1 2 3 4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := shape(t, ruledStream(schemas.Rules{Filter: []schemas.Condition{tt.by}}), nil, page)
			require.NoError(t, out.err)
			require.Equal(t, tt.want, out.column("t", "id"))
			require.EqualValues(t, 4-len(strings.Fields(tt.want)), out.filtered)
			var parents []string
			for _, p := range []string{"1", "3", "3"} {
				if slices.Contains(strings.Fields(tt.want), p) {
					parents = append(parents, p)
				}
			}
			require.Equal(t, strings.Join(parents, " "), out.column("t__c", schemas.ColParent))
		})
	}
	out := shape(t, ruledStream(schemas.Rules{Filter: []schemas.Condition{{Column: "zzz", In: []string{"1"}}}}), nil, page)
	require.EqualError(t, out.err, "filter m.t: no record has a column zzz")
	out = shape(t, ruledStream(schemas.Rules{Masks: masks("s", "drop"), Filter: []schemas.Condition{{Column: "s", In: []string{"won"}}}}), nil, page)
	require.Equal(t, "2", out.column("t", "id"))
	require.Empty(t, out.column("t", "s"))
}
