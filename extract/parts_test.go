package extract

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// The parts leave the page unchanged. // Invariants 6 and 11
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
			require.Equal(t, whole, page.Records, "a loop that stops early")
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

// The memory for the comparison of two pages grows only with the number of records. // Invariant 6
func TestCompareOfManyRecords(t *testing.T) {
	seed := maphash.MakeSeed()
	keys := func(from, n int) batch {
		var b batch
		for i := range n {
			b.keys = append(b.keys, maphash.Comparable(seed, from+i))
		}
		b.n = n
		return b
	}
	for _, n := range []int{100, 300_000} {
		for name, tt := range map[string]struct {
			other batch
			want  likeness
		}{
			"the same":      {keys(0, n), sameRecords},
			"mostly":        {keys(n/10, n), mostlySame},
			"fewer":         {keys(0, n/2), fewerRecords},
			"others":        {keys(n, n), otherRecords},
			"half of them":  {keys(n/2, n), otherRecords},
			"none":          {batch{}, noRecords},
			"more of these": {keys(0, 3*n), otherRecords},
		} {
			require.Equal(t, tt.want, compare(keys(0, n), tt.other), "%s of %d", name, n)
		}
	}
	large := keys(0, 300_000)
	allocated := testing.AllocsPerRun(1, func() { compare(large, keys(1, 10)) })
	require.Less(t, allocated, 100.0)

	// A short last page has no records of the first page. The comparison must see that, even if its sample of the
	// first page has none of the last page's keys.
	for from := range 20 {
		last, equal, others := keys(300_000+from, 3), batch{n: 300_000}, batch{n: 300_000}
		require.Equal(t, otherRecords, compare(large, last))
		require.Equal(t, fewerRecords, compare(large, keys(from, 3)))
		if from < 4 {
			equal.keys, others.keys = slices.Repeat(keys(from, 1).keys, equal.n), slices.Repeat(last.keys[:1], others.n)
			require.Equal(t, otherRecords, compare(equal, others))
			require.Equal(t, mostlySame, compare(equal, batch{n: equal.n - 1, keys: equal.keys[1:]}))
		}
	}
}

func TestKeysStartAgainOnALargePage(t *testing.T) {
	page := func(from, n int, content uint64) batch {
		b := batch{n: n}
		for i := range n {
			k := uint64(from+i) * 0x9e3779b97f4a7c15
			b.keys, b.content = append(b.keys, k), append(b.content, k+content)
		}
		return b
	}
	for _, n := range []int{100, 300_000} {
		first := page(1, n, 0)
		require.True(t, renamed(first, page(1, n, 1)))
		require.False(t, renamed(first, page(1, n, 0)))
		require.True(t, renamed(first, page(1, 5, 1)))
		for from := range 20 {
			require.False(t, renamed(first, page(n+1+from, 5, 1)), "other keys")
		}
	}
	one := batch{n: 300_000, keys: slices.Repeat([]uint64{1}, 300_000), content: make([]uint64, 300_000)}
	require.False(t, renamed(one, one), "one key that no sample contains")
}

// With signals that were not examined, no pass is proven. // Invariants 6, 14 and 15
func TestSignalsOfManyMembers(t *testing.T) {
	read := func(n int, format string) (signals, signalReader) {
		var b strings.Builder
		b.WriteString(`{"data":[{"id":1}]`)
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		d := new(jsondoc.Doc)
		require.NoError(t, d.Scan([]byte(b.String()+`,"next_cursor":"abc"}`)))
		s := noSignals
		r := signalReader{words: schemas.Paging(), d: d, n: 1, s: &s, skip: map[int]bool{8: true}}
		r.object(d.Root(), "", scope{trusted: true, top: true})
		s.settle()
		return s, r
	}
	for _, format := range []string{`,"m%07d":87`, `,"m%07d":"x"`, `,"next%07d":"x y"`} {
		s, r := read(50_000, format)
		require.LessOrEqual(t, len(s.unread), maxUnread+1)
		last := s.unread[len(s.unread)-1]
		require.Equal(t, "beside the records: not all read", last.String(), format)
		require.Contains(t, s.doubts(1<<40), last, "a text that is the same on each page is ignored, a number is not")
		require.Equal(t, "abc", s.token, "the cursor after them is found")
		require.Greater(t, r.doubted, maxDoubted)
	}
	s, _ := read(20, `,"m%07d":"x"`)
	require.Empty(t, s.unread)
	s, _ = read(20, `,"m%07d":87`)
	require.Len(t, s.unread, 20)
	s, _ = read(1, `,"next%07d":"`+strings.Repeat("y", 1<<20)+`"`)
	require.Len(t, s.unread, 1)
	other, _ := read(1, `,"next%07d":"`+strings.Repeat("y", 1<<20)+`z"`)
	require.Less(t, len(s.unread[0].value), 1000)
	require.NotEqual(t, s.unread[0].value, other.unread[0].value, "long values with the same beginning")
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
			v.observe(c.newListReader(s, nil, &endpointTraits{}), d, f)
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
		got := signalsOf(&answer{d: d}, f, 1)
		var id string
		for r := range d.Elements(f.Places[0].Value) {
			id = l.idOf(d, r)
		}
		if kept {
			require.Equal(t, text, id)
			require.Equal(t, text, got.token)
			require.Empty(t, got.unread)
			continue
		}
		require.Empty(t, id)
		require.Empty(t, got.token)
		require.Len(t, got.unread, 1, "the token forbids the verdict proven")
	}
}

// The finder visits the names of a map, and members that may be a board, only a few times. // Invariant 15
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
