package extract

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

func spans(b []byte) ([]node, error) {
	d := jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var all []node
	var open []int
	for {
		t, err := d.ReadToken()
		if err == io.EOF && len(all) > 0 && len(open) == 0 {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && len(open) == 0 {
			return nil, fmt.Errorf("a second value")
		}
		switch end := uint32(d.InputOffset()); t.Kind() {
		case '{', '[':
			open = append(open, len(all))
			all = append(all, node{start: end - 1})
		case '}', ']':
			n := &all[open[len(open)-1]]
			open = open[:len(open)-1]
			n.end, n.next = end, uint32(len(all))
		default:
			if len(open) == 0 {
				return nil, fmt.Errorf("scalar")
			}
		}
	}
}

func walkAll(d *doc, v value) int {
	n := 1
	switch {
	case d.isObject(v):
		for _, m := range d.members(v) {
			n += walkAll(d, m)
		}
	case d.isList(v):
		for e := range d.elements(v) {
			n += walkAll(d, e)
		}
	}
	return n
}

var bodies = []string{
	`{}`, `[]`, ` [ ] `, `{"a":1}`, `[1,"a",null,true,{"b":[]}]`,
	`{"data":[{"id":1,"s":"a\"]}"},{"id":2,"s":"\\"},{"id":3,"s":"\\\\\"{["}],"has_more":false}`,
	`{"u":"\u00e9\ud83d\ude00","p":"https:\/\/x","n":-1.5e+3}`,
	`[[[[[[]]]]]]`, "{\n\t\"a\" : [ 1 , 2 ]\r\n}",
	`{"k":"` + strings.Repeat(`\\`, 70) + `","l":"` + strings.Repeat("x", 62) + `\"","m":[{}]}`,
	`{"long":"` + strings.Repeat("{[", 100) + `","after":{"x":[{}]}}`,
}

func TestScanAgreesWithStrictDecoder(t *testing.T) {
	for _, b := range bodies {
		want, err := spans([]byte(b))
		require.NoError(t, err, b)
		d := new(doc)
		require.NoError(t, d.scan([]byte(b)), b)
		require.Equal(t, want, d.nodes, b)
		walkAll(d, d.root())
		require.NoError(t, d.err, b)
	}
}

func TestScanRefusesEveryCut(t *testing.T) {
	var page strings.Builder
	page.WriteString(`{"success":true,"message":"ok","data":{"items":[`)
	for i := range 60 {
		if i > 0 {
			page.WriteString(",")
		}
		fmt.Fprintf(&page, `{"id":%d,"name":"Zo\u00eb \"Z\" %d","tags":["a","]"],"address":{"city":"N\\","zip":null}}`, i, i)
	}
	page.WriteString(`],"pagination":{"total":60,"per_page":60,"current_page":1,"last_page":1}}}`)
	body := []byte(page.String())
	require.Greater(t, len(body), 4000)
	d := new(doc)
	for cut := range body {
		require.Error(t, d.scan(body[:cut:cut]), "cut at %d", cut)
	}
	require.NoError(t, d.scan(body))
}

func TestScanRefuses(t *testing.T) {
	for _, b := range []string{
		"", " ", "null", `""`, "12", "<html>", "\ufeff{}", `{"a":1}x`, `{"a":1}{}`, `{}]`, `{"a":[}`, `[}`, `]`, `{"a":"}`, `{y}`[0:2] + "}}",
		"<br />\n<b>Warning</b>: x in y {}",
	} {
		d := new(doc)
		require.Error(t, d.scan([]byte(b)), "%q", b)
	}
}

func TestWalkRefuses(t *testing.T) {
	for _, b := range []string{
		`{"a" 1}`, `{"a":}`, `{"a":1,}`, `{,}`, `{a:1}`, `{"a":tru}`, `{"a":01}`, `[1 2]`, `[1,]`, `[,1]`, `{"a":1 "b":2}`,
		`{\"a":1,"}`, `{"a":"b"c}`, `[{}{}]`, `{"a":{}{}}`, `{"a":1;[]}`, `{1:2}`, `{"a"[]}`,
	} {
		d := new(doc)
		if d.scan([]byte(b)) != nil {
			continue
		}
		walkAll(d, d.root())
		require.Error(t, d.err, b)
	}
}

func TestScanDeep(t *testing.T) {
	for _, depth := range []int{10, 200, 100_000} {
		b := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		d := new(doc)
		require.NoError(t, d.scan([]byte(b)))
		require.Len(t, d.nodes, depth)
	}
	d := new(doc)
	require.NoError(t, d.scan([]byte("["+strings.Repeat("1,", 1_000_000)+"1]")))
	require.Error(t, d.scan([]byte("["+strings.Repeat("[],", maxNodes)+"[]]")))
}

func FuzzScan(f *testing.F) {
	for _, b := range bodies {
		f.Add([]byte(b))
	}
	f.Add([]byte("{}{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := new(doc)
		err := d.scan(b)
		if err == nil {
			walkAll(d, d.root())
			err = d.err
		}
		want, strict := spans(b)
		if strict == nil {
			require.NoError(t, err, "%q", b)
			require.Equal(t, want, d.nodes, "%q", b)
		}
	})
}

func benchmarkBody(records int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"object":"list","data":[`)
	for i := range records {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"con_%08d","object":"contact","number":%d,"name":"Zoë Ñandú %d","email":"zoe%d@example.test","phone":null,`+
			`"balance":"%d.50","active":true,"url":"https:\/\/example.test\/c\/%d","created_at":"2026-11-21T10:05:00.000000Z",`+
			`"address":{"street":"Main 1","city":"Berlin","zip":"10115","country":"DE"},"tags":["vip","a","b"],`+
			`"people":[{"id":1,"name":"A"},{"id":2,"name":"B"}],"note":"%s"}`, i, i, i, i, i, i, strings.Repeat("lorem ipsum ", 20))
	}
	b.WriteString(`],"has_more":true,"next_cursor":"eyJpZCI6MX0"}`)
	return b.Bytes()
}

func BenchmarkScan(b *testing.B) {
	body := benchmarkBody(1000)
	b.SetBytes(int64(len(body)))
	d := new(doc)
	for b.Loop() {
		if err := d.scan(body); err != nil {
			b.Fatal(err)
		}
	}
}
