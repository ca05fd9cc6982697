package extract

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

func assembled(t *testing.T, s schemas.Stream, body string) (string, records.Found, error) {
	t.Helper()
	d := new(jsondoc.Doc)
	require.NoError(t, d.Scan([]byte(body)), body)
	f, err := records.Find(d, s)
	if err != nil {
		return "", f, err
	}
	var b batch
	a := assembler{stream: s, seed: maphash.MakeSeed()}
	require.NoError(t, a.assemble(d, f, &b))
	return string(b.json()), f, nil
}

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		stream  string
		class   schemas.Class
		places  string
		context string
		body    string
		at      string
		want    string
	}{
		{"crm.pipelines", "list", "", "", `{"success":true,"message":"ok","data":[{"id":1,"name":"Sales","stages":[{"id":4,"name":"Draft"}]}]}`,
			"/data", `[{"id":1,"name":"Sales","stages":[{"id":4,"name":"Draft"}]}]`},
		{"crm.deal_stages", "list", "", "pipeline", `{"status":"success","data":[{"id":1,"name":"Sales","stages":[{"id":4}]},{"id":2,"name":"B","stages":[]}]}`,
			"/data/*/stages", `[{"id":4,"_context":{"pipeline":{"id":1,"name":"Sales"}}}]`},
		{"sales.proposals", "list", "", "", `{"status":"success","data":{"proposals":[{"id":1}]}}`, "/data/proposals", `[{"id":1}]`},
		{"crm.leads", "board", "", "stage", `{"status":"success","data":{"pipeline":{"id":1,"name":"Sales"},"lead_stages":[{"id":4,"name":"New","order":0,"leads":[{"id":77}]},{"id":5,"name":"Old","leads":[]}]}}`,
			"/data/lead_stages/*/leads", `[{"id":77,"_context":{"stage":{"id":4,"name":"New","order":0}}}]`},
		{"crm.deals", "board", "", "stage", `{"status":"success","data":{"pipeline":{"id":1,"name":"Sales","stages":[{"id":8,"name":"Open","order":0,"deals":[{"id":5,"tasks":"3/1"}]}]}}}`,
			"/data/pipeline/stages/*/deals", `[{"id":5,"tasks":"3/1","_context":{"stage":{"id":8,"name":"Open","order":0}}}]`},
		{"crm.leads", "board", "/data/lead_stages/*/leads /data/*/leads /data", "stage", `{"data":[{"id":4,"name":"A","leads":{"3":{"id":1},"4":{ }}},{"id":5,"name":"B"},{"id":6,"name":"C","leads":[null]}]}`,
			"/data/*/leads", `[{"id":1,"_context":{"stage":{"id":4,"name":"A"}}},{"_context":{"stage":{"id":4,"name":"A"}}},null]`},
		{"crm.leads", "board", "/data/*/leads /data", "stage", `{"data":[{"id":4,"name":"A","leads":[]},{"id":5,"name":"B","leads":[]}]}`, "/data/*/leads", `[]`},
		{"crm.leads", "board", "/data/*/leads /data", "stage", `{"data":[{"id":4,"subject":"a lead"}]}`, "/data", `[{"id":4,"subject":"a lead"}]`},
		{"crm.labels", "list", "/data/* /data", "pipeline", `{"status":"success","data":{"Sales":[{"id":1}],"A\"b":[{"id":2}]}}`,
			"/data/*", `[{"id":1,"_context":{"pipeline":"Sales"}},{"id":2,"_context":{"pipeline":"A\"b"}}]`},
		{"crm.labels", "list", "", "", `{"status":"success","data":{"Sales":[{"id":1}],"Marketing":[{"id":2}]}}`, "/data/*", `[{"id":1},{"id":2}]`},
		{"crm.labels", "list", "/data/* /data", "pipeline", `{"status":"success","data":[]}`, "/data", `[]`},
		{"crm.labels", "list", "/data/* /data /data/items", "pipeline", `{"data":{"items":[{"id":1}],"pagination":{"total":1}}}`, "/data/items", `[{"id":1}]`},
		{"crm.deal", "detail", "/message/deal /data/deal /data", "", `{"status":"success","message":{"deal":{"id":5,"name":"Website"}}}`, "/message/deal", `[{"id":5,"name":"Website"}]`},
		{"crm.deal", "detail", "", "", `{"status":"success","data":{"id":5,"name":"Website"}}`, "/data", `[{"id":5,"name":"Website"}]`},
		{"projects.task_board", "board", "", "stage", `{"status":"success","data":{"project":{"id":4},"stages":[{"id":1,"name":"Todo","tasks":[{"id":9}]}],"statusClass":["a","b"]}}`,
			"/data/stages/*/tasks", `[{"id":9,"_context":{"stage":{"id":1,"name":"Todo"}}}]`},
		{"taskly.bug_statuses", "list", "/data", "", `[{"id":1,"name":"Unconfirmed"}]`, "", `[{"id":1,"name":"Unconfirmed"}]`},
		{"sales.quotes", "list", "", "", `{"status":1,"data":{"current_page":1,"data":[{"id":12}],"links":[{"url":null,"label":"x"}],"total":27}}`, "/data/data", `[{"id":12}]`},
		{"x.things", "list", "", "", `{"data":{"10":{"id":1},"11":{"id":2}}}`, "/data", `[{"id":1},{"id":2}]`},
		{"x.things", "list", "", "", `{"success":true,"chart":[{"x":1}],"filters":[{"id":1}],"things":[{"id":1}]}`, "/things", `[{"id":1}]`},
		{"x.things", "list", "", "", `{"success":true,"data":{"id":3,"name":"only"}}`, "/data", `[{"id":3,"name":"only"}]`},
		{"auth.user", "singleton", `/data/user /data /`, "", `{"id":1,"name":"A","data":"x"}`, "", ""},
		{"v2.contact", "detail", "/data", "", `{"id":"con_1","object":"contact"}`, "", `[{"id":"con_1","object":"contact"}]`},
		{"crm.request_data", "lookup", "/data/*", "list", `{"success":true,"data":{"users":[{"id":1}],"tax":[],"stages":null}}`, "/data/*", `[{"id":1,"_context":{"list":"users"}}]`},
	} {
		s := schemas.Stream{Name: tt.stream, Class: tt.class, Context: tt.context, Records: strings.Fields(tt.places)}
		got, f, err := assembled(t, s, tt.body)
		if tt.want == "" {
			continue
		}
		require.NoError(t, err, tt.body)
		require.Equal(t, tt.want, got, tt.body)
		require.Equal(t, tt.at, f.Pointer, tt.body)
	}
}

func TestFindNothing(t *testing.T) {
	for _, body := range []string{
		`{"success":true}`, `{"success":true,"message":"done"}`, `["a","b"]`, `{"data":["a"]}`, `{"data":{"Jan":0,"Feb":3}}`,
		`{"success":true,"data":"Logged out successfully"}`, `{"data":{"total":3,"chartData":[{"x":1}],"statusClass":["a"]}}`,
		`{"data":{"billing_address":{"city":"a"},"shipping_address":{"zip":"b"}}}`,
		`{"data":{"first":[{"id":1}],"second":[{"id":2}],"n":1}}`,
	} {
		_, _, err := assembled(t, schemas.Stream{Name: "x.things", Class: "list"}, body)
		require.ErrorContains(t, err, "no records found", body)
		_, _, err = assembled(t, schemas.Stream{Name: "x.things", Class: "list", Records: []string{"/data/items", "/data/*/things"}}, body)
		require.Error(t, err, body)
	}
}

func TestRecordsAreTheBody(t *testing.T) {
	body := []byte(`{"data":[ {"id":1} , {"id":2} ]}`)
	d := new(jsondoc.Doc)
	require.NoError(t, d.Scan(body))
	f, err := records.Find(d, schemas.Stream{Name: "x.things", Class: "list"})
	require.NoError(t, err)
	var b batch
	require.NoError(t, (&assembler{seed: maphash.MakeSeed()}).assemble(d, f, &b))
	require.Equal(t, `[ {"id":1} , {"id":2} ]`, string(b.json()))
	require.Same(t, &body[8], &b.json()[0])
	require.Equal(t, 2, b.N)
}

func FuzzRecords(f *testing.F) {
	for _, b := range []string{`{}`, `[]`, ` [ ] `, `[1,"a",null,true,{"b":[]}]`, `[[[[[[]]]]]]`, "{\n\t\"a\" : [ 1 , 2 ]\r\n}"} {
		f.Add([]byte(b))
	}
	f.Add([]byte(`{"success":true,"data":{"items":[{"id":1},{"id":2}],"pagination":{"total":2}}}`))
	f.Add([]byte(`{"data":{"a":[{"id":1}],"b":[]},"data":[]}`))
	f.Add([]byte(`{"d\u0061ta":[{"id":1}]}`))
	f.Add([]byte(` [5,[ ] ]`))
	f.Add([]byte(`[{"page":1,"total":2},[{"id":1},{"id":2}]]`))
	s := schemas.Stream{Name: "x.things", Class: "list", Records: []string{"/data/items", "/data", ""}}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := new(jsondoc.Doc)
		if d.Scan(b) != nil {
			return
		}
		got, err := records.Find(d, s)
		if !jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true)) {
			return
		}
		require.NoError(t, d.Err(), "%q", b)
		if err != nil || len(got.Places) != 1 || got.Places[0].Form != records.FormList || strings.Contains(got.Pointer, "*") {
			return
		}
		want := b
		for _, name := range strings.Split(got.Pointer, "/")[1:] {
			want = valueAt(t, want, jsondoc.Unescape(name))
		}
		require.Equal(t, strings.TrimSpace(string(want)), string(d.Raw(got.Places[0].Value)), "%q", b)
	})
}

// valueAt returns a member of an object, or an element of an array. The argument `name` is the member's name or the
// element's index.
func valueAt(t *testing.T, document []byte, name string) []byte {
	d := jsontext.NewDecoder(bytes.NewReader(document), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	open, err := d.ReadToken()
	require.NoError(t, err)
	for i := 0; d.PeekKind() != '}' && d.PeekKind() != ']'; i++ {
		key := strconv.Itoa(i)
		if open.Kind() == '{' {
			token, err := d.ReadToken()
			require.NoError(t, err)
			key = token.String()
		}
		v, err := d.ReadValue()
		require.NoError(t, err)
		if key == name {
			return v
		}
	}
	t.Fatalf("no value %q in %q", name, document)
	return nil
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

func BenchmarkPage(b *testing.B) {
	body := benchmarkBody(1000)
	s := schemas.Stream{Name: "v2.contacts", Class: "list", Table: schemas.Table{Key: []string{"id"}}, Records: []string{"/data"}}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	d := new(jsondoc.Doc)
	c := Client{seed: maphash.MakeSeed()}
	l := c.newListReader(s, nil, &endpointTraits{})
	for b.Loop() {
		l.repeated = paging.Repetition{}
		if err := d.Scan(body); err != nil {
			b.Fatal(err)
		}
		f, err := l.locate(d)
		if err != nil {
			b.Fatal(err)
		}
		var batch batch
		if err := l.asm.assemble(d, f, &batch); err != nil || batch.N != 1000 {
			b.Fatal(err, batch.N)
		}
		if _, err := l.repeated.Check(batch.Keys, true, 0); err != nil {
			b.Fatal(err)
		}
		if s := (&answer{d: d}).signals(f, batch.N); s.More != paging.Yes {
			b.Fatal(s)
		}
	}
}

func BenchmarkBoard(b *testing.B) {
	var body strings.Builder
	body.WriteString(`{"success":true,"data":[`)
	for i := range 20 {
		if i > 0 {
			body.WriteString(",")
		}
		fmt.Fprintf(&body, `{"id":%d,"name":"S","leads":%s}`, i, rows(0, 500, 500))
	}
	body.WriteString(`]}`)
	s := schemas.Stream{Name: "crm.leads", Class: "board", Context: "stage", Table: schemas.Table{Key: []string{"id"}}, Records: []string{"/data/*/leads"}}
	b.SetBytes(int64(body.Len()))
	d := new(jsondoc.Doc)
	var buf []byte
	for b.Loop() {
		if err := d.Scan([]byte(body.String())); err != nil {
			b.Fatal(err)
		}
		f, err := records.Find(d, s)
		if err != nil {
			b.Fatal(err)
		}
		batch := batch{records: buf[:0]}
		if err := (&assembler{stream: s, seed: maphash.MakeSeed()}).assemble(d, f, &batch); err != nil {
			b.Fatal(err)
		}
		buf = batch.records
	}
}

func TestEntriesOfAMap(t *testing.T) {
	for body, want := range map[string]string{
		`{"data":{"north":{"id":1},"a\"b":{"id":2}}}`:                                `"north"3{"id":1} "a\"b"3{"id":2}`,
		`{"data":{"north":[{"id":1},{"id":2}],"x":null,"y":[{"id":3}]}}`:             `"north"1[{"id":1},{"id":2}] "y"1[{"id":3}]`,
		`{"data":{"10":{"id":1},"11":{"id":2}}}`:                                     `"10"3{"id":1} "11"3{"id":2}`,
		`{"data":[{"id":1}],"meta":{"north":{"id":1}},"total":1}`:                    `1[{"id":1}]`,
		`{"stages":[{"name":"New","things":[{"id":1}]},{"name":"Old","things":[]}]}`: `1[{"id":1}] 1[]`,
	} {
		d := new(jsondoc.Doc)
		require.NoError(t, d.Parse([]byte(body)))
		f, err := records.Find(d, schemas.Stream{Name: "x.things", Class: "list", Records: []string{"/data/*", "/stages/*/things"}})
		require.NoError(t, err, body)
		var got []string
		for p := range f.All(d) {
			got = append(got, fmt.Sprintf("%s%d%s", p.In.Key, p.Form, d.Raw(p.Value)))
		}
		require.Equal(t, want, strings.Join(got, " "), body)
		require.LessOrEqual(t, len(f.Places), 2)
	}
}
