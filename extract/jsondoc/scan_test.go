package jsondoc

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

func walkAll(d *Doc, v Value) int {
	n := 1
	switch {
	case d.IsObject(v):
		for _, m := range d.Members(v) {
			n += walkAll(d, m)
		}
	case d.IsList(v):
		for e := range d.Elements(v) {
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
		d := new(Doc)
		require.NoError(t, d.Scan([]byte(b)), b)
		require.Equal(t, want, d.nodes, b)
		walkAll(d, d.Root())
		require.NoError(t, d.Err(), b)
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
	d := new(Doc)
	for cut := range body {
		require.Error(t, d.Scan(body[:cut:cut]), "cut at %d", cut)
	}
	require.NoError(t, d.Scan(body))
}

func TestScanRefuses(t *testing.T) {
	for _, b := range []string{
		"", " ", "null", `""`, "12", "<html>", "\ufeff{}", `{"a":1}x`, `{"a":1}{}`, `{}]`, `{"a":[}`, `[}`, `]`, `{"a":"}`, `{y}`[0:2] + "}}",
		"<br />\n<b>Warning</b>: x in y {}",
	} {
		d := new(Doc)
		require.Error(t, d.Scan([]byte(b)), "%q", b)
	}
}

func TestWalkRefuses(t *testing.T) {
	for _, b := range []string{
		`{"a" 1}`, `{"a":}`, `{"a":1,}`, `{,}`, `{a:1}`, `{"a":tru}`, `{"a":01}`, `[1 2]`, `[1,]`, `[,1]`, `{"a":1 "b":2}`,
		`{\"a":1,"}`, `{"a":"b"c}`, `[{}{}]`, `{"a":{}{}}`, `{"a":1;[]}`, `{1:2}`, `{"a"[]}`,
	} {
		d := new(Doc)
		if d.Scan([]byte(b)) != nil {
			continue
		}
		walkAll(d, d.Root())
		require.Error(t, d.Err(), b)
	}
}

func TestScanDeep(t *testing.T) {
	for _, depth := range []int{10, 200, 100_000} {
		b := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		d := new(Doc)
		require.NoError(t, d.Scan([]byte(b)))
		require.Len(t, d.nodes, depth)
	}
	d := new(Doc)
	require.NoError(t, d.Scan([]byte("["+strings.Repeat("1,", 1_000_000)+"1]")))
	require.Error(t, d.Scan([]byte("["+strings.Repeat("[],", MaxNodes)+"[]]")))
}

func FuzzScan(f *testing.F) {
	for _, b := range bodies {
		f.Add([]byte(b))
	}
	f.Add([]byte("{}{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := new(Doc)
		err := d.Scan(b)
		if err == nil {
			walkAll(d, d.Root())
			err = d.Err()
		}
		want, strict := spans(b)
		if strict == nil {
			require.NoError(t, err, "%q", b)
			require.Equal(t, want, d.nodes, "%q", b)
		}
	})
}

// The nodes of a body with small records take little extra memory. // Invariant 6
func TestNodesOfALongBody(t *testing.T) {
	d := new(Doc)
	require.NoError(t, d.Scan([]byte("["+strings.Repeat(`{"id":1},`, 300_000)+`{}]`)))
	require.Len(t, d.nodes, 300_002)
	require.Less(t, cap(d.nodes), 320_000)
}

func BenchmarkScan(b *testing.B) {
	body := []byte("[" + strings.Repeat(record+",", 1000) + "{}]")
	b.SetBytes(int64(len(body)))
	d := new(Doc)
	for b.Loop() {
		if err := d.Scan(body); err != nil {
			b.Fatal(err)
		}
	}
}

const record = `{"id":"con_00000017","object":"contact","number":17,"name":"Zoë Ñandú 17","email":"zoe17@example.test","phone":null,"balance":"17.50","active":true,` +
	`"url":"https:\/\/example.test\/c\/17","created_at":"2026-11-21T10:05:00.000000Z","address":{"street":"Main 1","city":"Berlin","zip":"10115","country":"DE"},` +
	`"tags":["vip","a","b"],"people":[{"id":1,"name":"A"},{"id":2,"name":"B"}],"note":"lorem ipsum lorem ipsum lorem ipsum lorem ipsum"}`
