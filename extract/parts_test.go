package extract

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// Parts() leaves the page unchanged. // Invariants 6 and 11
func TestPartsOfAPage(t *testing.T) {
	record := `{"id":%d,"text":"` + strings.Repeat("x", 1000) + `"}`
	for name, tt := range map[string]struct {
		n          int
		between    string
		dictionary bool
		parts      int
	}{
		"few records":          {3, ",", false, 1},
		"none":                 {0, ",", false, 1},
		"9 MB":                 {9000, ",", false, 3},
		"white space":          {9000, " \n, \t", false, 3},
		"records by their ids": {9000, ",", true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var body []string
			for i := range tt.n {
				r := fmt.Sprintf(record, i)
				if tt.dictionary {
					r = fmt.Sprintf(`"%d":%s`, i+1, r)
				}
				body = append(body, r)
			}
			text := "[" + strings.Join(body, tt.between) + "]"
			if tt.dictionary {
				text = `{"data":{` + strings.Join(body, tt.between) + "}}"
			}
			d := new(jsondoc.Doc)
			require.NoError(t, d.Scan([]byte(text)))
			s := schemas.Stream{Name: "x.things", Class: "list", Table: schemas.Table{Key: []string{"id"}}}
			f, err := records.Find(d, s)
			require.NoError(t, err)
			a := assembler{stream: s, seed: maphash.MakeSeed()}
			var b batch
			require.NoError(t, a.assemble(d, f, &b))
			page := Page{Records: b.json(), cuts: b.cuts.at}
			whole := bytes.Clone(page.Records)

			n, parts := 0, 0
			for offset, part := range page.Parts() {
				parts++
				require.LessOrEqual(t, len(part), partBytes+2000)
				inner := new(jsondoc.Doc)
				require.NoError(t, inner.Scan(part))
				require.True(t, jsontext.Value(part).IsValid())
				for r := range inner.Elements(inner.Root()) {
					require.Equal(t, fmt.Sprint(n), string(inner.Raw(inner.Get(r, "id"))))
					require.Equal(t, whole[offset+r.Start:offset+r.End], inner.Raw(r))
					n++
				}
			}
			require.Equal(t, tt.n, n)
			require.Equal(t, tt.parts, parts)
			require.Equal(t, whole, page.Records)
			for range page.Parts() {
				break
			}
			require.Equal(t, whole, page.Records, "a loop that stops early changes nothing")
		})
	}
}

// The list of one parent is split into parts too. // Invariants 6 and 11
func TestPartsOfAFanOut(t *testing.T) {
	f := &fanPass{pass: &pass{}}
	for _, n := range []int{2, 9000, 0, 3} {
		a := assembler{stream: schemas.Stream{Name: "x.things", Class: "list"}, seed: maphash.MakeSeed(), copyLists: true, params: []byte(`"id":7`)}
		d := new(jsondoc.Doc)
		require.NoError(t, d.Scan([]byte("["+strings.TrimSuffix(strings.Repeat(`{"v":1} , `, n), " , ")+"]")))
		found, err := records.Find(d, a.stream)
		require.NoError(t, err)
		var b batch
		require.NoError(t, a.assemble(d, found, &b))
		f.append(&b)
	}
	page := f.page(nil)
	whole := bytes.Clone(page.Records)
	parts, n := 0, 0
	for _, part := range page.Parts() {
		inner := new(jsondoc.Doc)
		require.NoError(t, inner.Scan(part))
		for r := range inner.Elements(inner.Root()) {
			require.Equal(t, `{"v":1,"_context":{"id":7}}`, string(inner.Raw(r)))
			n++
		}
		parts++
	}
	require.Equal(t, []int{2, 9005}, []int{parts, n})
	require.Equal(t, whole, page.Records)
	require.Empty(t, f.page(nil).cuts)
}

// The comparison of two readings takes limited memory. // Invariant 6
func TestVolatilityIsBounded(t *testing.T) {
	s := schemas.Stream{Name: "x.things", Class: "list", Table: schemas.Table{Key: []string{"id"}}, Records: []string{""}}
	c := &Client{seed: maphash.MakeSeed()}
	readings := func(rows, names int, each bool) *volatility {
		v := newVolatility()
		for reading := range 2 {
			var b strings.Builder
			for i := range rows {
				fmt.Fprintf(&b, `,{"id":%d,"seen":%d`, i, 10*i+reading)
				for j := range names {
					if each {
						j += i * names
					}
					fmt.Fprintf(&b, `,"m%06d":1`, j)
				}
				b.WriteString("}")
			}
			d := new(jsondoc.Doc)
			require.NoError(t, d.Scan([]byte("["+b.String()[1:]+"]")))
			f, err := records.Find(d, s)
			require.NoError(t, err)
			v.observe(&c.newListReader(s, nil, &endpointTraits{}).asm, d, f)
		}
		return v
	}
	v := readings(1000, 300, false)
	require.Equal(t, []string{"seen"}, v.fields())
	require.Less(t, v.kept, maxHashes+records.MaxNames)
	v = readings(1000, 1000, true)
	require.LessOrEqual(t, len(v.members), records.MaxNames)
	require.LessOrEqual(t, v.kept, maxHashes+records.MaxNames)
	v = readings(5_000, 1, false)
	require.LessOrEqual(t, len(v.records), records.MaxRows)
	require.Equal(t, []string{"seen"}, v.fields())
}

// No request has an id or token of a megabyte. // Invariants 6 and 15
func TestOversizedIDsAndTokens(t *testing.T) {
	s := schemas.Stream{Name: "x.things", Class: "list", Table: schemas.Table{Key: []string{"id"}}}
	l := (&Client{seed: maphash.MakeSeed()}).newListReader(s, nil, &endpointTraits{})
	for n, kept := range map[int]bool{36: true, 1 << 20: false} {
		text := strings.Repeat("k", n)
		d := new(jsondoc.Doc)
		require.NoError(t, d.Scan([]byte(fmt.Sprintf(`{"data":[{"id":%q}],"next_cursor":%[1]q}`, text))))
		f, err := records.Find(d, s)
		require.NoError(t, err)
		got := (&answer{d: d}).signals(f, 1)
		var id string
		for r := range d.Elements(f.Places[0].Value) {
			id = l.idOf(d, r)
		}
		if kept {
			require.Equal(t, text, id)
			require.Equal(t, text, got.Token)
			require.Empty(t, got.Unread)
			continue
		}
		require.Empty(t, id)
		require.Empty(t, got.Token)
		require.Len(t, got.Unread, 1, "the token was not kept, so the list cannot be proven complete")
	}
}

// However many members a map has, the finder visits each of them only a few times. // Invariant 15
func TestMapOfManyNamedRecords(t *testing.T) {
	var b strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&b, `,"x%d":{"id":%[1]d,"v":1}`, i)
	}
	d := new(jsondoc.Doc)
	require.NoError(t, d.Scan([]byte(`{"data":{`+b.String()[1:]+`}}`)))
	f, err := records.Find(d, schemas.Stream{Name: "x.things", Class: "list"})
	require.NoError(t, err)
	require.Len(t, f.Places, 1)
	names := map[string]bool{}
	for p := range f.All(d) {
		names[string(p.In.Key)] = p.Form == records.FormOne
	}
	require.Len(t, names, 200_000)
	require.True(t, names[`"x199999"`])
}

// Invariant 6
func TestTooManyRecordsInAnAnswer(t *testing.T) {
	s := schemas.Stream{Name: "x.things", Class: "list", Records: []string{""}}
	for n, message := range map[int]string{jsondoc.MaxNodes: "", jsondoc.MaxNodes + 1: "more than 4194304 records in one answer"} {
		d := new(jsondoc.Doc)
		require.NoError(t, d.Scan([]byte("[{}"+strings.Repeat(",1", n-1)+"]")))
		f, err := records.Find(d, s)
		require.NoError(t, err)
		err = (&assembler{stream: s, seed: maphash.MakeSeed()}).assemble(d, f, new(batch))
		if message == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, message)
	}
}
