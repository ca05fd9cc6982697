package sandbox_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox"
)

const branches = "/api/branches"

func TestFaults(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{NoLimits: true})
	good := d.call("GET", branches, sandbox.ReadOnlyToken, nil).body
	strike := func(text string) (answer, error) {
		f, err := sandbox.ParseFault(text)
		require.NoError(t, err)
		require.NoError(t, d.SetFaults(f))
		return d.try("GET", branches, sandbox.ReadOnlyToken, nil)
	}

	a, err := strike("hr.branches=status,status=503,retry_after=2")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Equal(t, "2", a.header.Get("Retry-After"))

	a, err = strike("hr.*=html")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.status)
	require.Contains(t, a.header.Get("Content-Type"), "text/html")

	a, err = strike("/api/branches=empty")
	require.NoError(t, err)
	require.JSONEq(t, `{"status":"success","data":[]}`, string(a.body))

	a, err = strike("GET /api/branches=malformed")
	require.NoError(t, err)
	require.False(t, json.Valid(a.body))

	_, err = strike("hr.*=reset")
	require.Error(t, err)

	_, err = strike("hr.*=truncate,bytes=40")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	a, err = strike("hr.*=cut,bytes=40")
	require.NoError(t, err)
	require.Equal(t, good[:40], a.body)

	began := time.Now()
	a, err = strike("hr.*=slow,delay=5ms")
	require.NoError(t, err)
	require.Equal(t, good, a.body)
	require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)

	a, err = strike("hr.*=module_off")
	require.NoError(t, err)
	require.Contains(t, string(a.body), "Module Not Active!")

	a, err = strike("hr.*=redirect,location=http://other.example.test/")
	require.NoError(t, err)
	require.Equal(t, "http://other.example.test/", a.header.Get("Location"))
	require.Equal(t, http.StatusFound, a.status)

	a, err = strike("hr.*=gzip_bomb,bytes=50000000")
	require.NoError(t, err)
	require.Greater(t, len(a.body), 40_000_000)

	a, err = strike("hr.*=field,field=data")
	require.NoError(t, err)
	require.JSONEq(t, `{"status":"success"}`, string(a.body))

	a, err = strike("hr.*=field,field=data,as=rows")
	require.NoError(t, err)
	require.Equal(t, strings.Replace(string(good), `"data":`, `"rows":`, 1), string(a.body), "nothing else changes")

	a, err = strike("hr.*=field,field=name,value=null")
	require.NoError(t, err)
	require.True(t, json.Valid(a.body))
	require.Equal(t, regexp.MustCompile(`"name":"[^"]*"`).ReplaceAllString(string(good), `"name":null`), string(a.body))

	f, err := sandbox.ParseFault("support.*=stuck")
	require.NoError(t, err)
	require.NoError(t, d.SetFaults(f))
	require.Contains(t, string(d.call("GET", "/api/support-ticket/faqs?page=3", sandbox.ReadOnlyToken, nil).body), `"current_page":1`)

	a, err = strike("crm.*=status")
	require.NoError(t, err)
	require.Equal(t, good, a.body, "another stream's fault does not apply")
}

func TestFaultCountsAndPages(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{NoLimits: true, Faults: []sandbox.Fault{
		{Match: "hr.branches", Kind: sandbox.FaultStatus, Count: 2, After: 1},
		{Match: "support.tickets", Kind: sandbox.FaultStatus, Page: 3, Status: 502},
	}})
	var got []int
	for range 5 {
		got = append(got, d.call("GET", branches, sandbox.ReadOnlyToken, nil).status)
	}
	require.Equal(t, []int{200, 500, 500, 200, 200}, got)
	require.Equal(t, 200, d.call("GET", "/api/support-ticket/tickets?page=2", sandbox.ReadOnlyToken, nil).status)
	require.Equal(t, 502, d.call("GET", "/api/support-ticket/tickets?page=3", sandbox.ReadOnlyToken, nil).status)
}

func TestDriftMovesRowsBetweenPages(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{NoLimits: true, Faults: []sandbox.Fault{{Match: "support.tickets", Kind: sandbox.FaultDrift, Page: 2, Count: 1}}})
	s, _ := d.catalogue.Find("support.tickets")
	seen := map[string]int{}
	for _, r := range texts(t, d.read(s)) {
		seen[r]++
	}
	repeated := 0
	for _, n := range seen {
		repeated += n - 1
	}
	require.Equal(t, 1, repeated, "the row that moved to the next page is read twice")
}

func TestShuffleMovesEqualRows(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{NoLimits: true, Faults: []sandbox.Fault{{Match: "support.tickets", Kind: sandbox.FaultShuffle}}})
	seen := map[string]bool{}
	for range 20 {
		a := d.call("GET", "/api/support-ticket/tickets?per_page=100", sandbox.ReadOnlyToken, nil)
		seen[string(a.body)] = true
		items := at(a.json(t), "/data/items/*/id")
		require.Len(t, items, 84)
	}
	require.Greater(t, len(seen), 15)
}

func TestParseFaultRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "crm.leads", "crm.leads=explode", "crm.*=status,status=abc", "crm.*=status,colour=red", "[=status"} {
		_, err := sandbox.ParseFault(text)
		require.Error(t, err, text)
	}
}

func TestControls(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{})
	require.Equal(t, 200, d.call("POST", "/_sandbox/faults", "", []sandbox.Fault{{Match: "hr.*", Kind: sandbox.FaultSlow, Delay: sandbox.Duration(time.Millisecond)}}).status)
	require.Equal(t, 400, d.call("POST", "/_sandbox/faults", "", []map[string]any{{"kind": "explode"}}).status)
	require.Equal(t, 200, d.call("DELETE", "/_sandbox/faults", "", nil).status)
	d.call("GET", branches, sandbox.ReadOnlyToken, nil)
	d.call("POST", "/api/login", "", map[string]any{"email": "x"})
	var stats sandbox.Stats
	require.NoError(t, json.Unmarshal(d.call("GET", "/_sandbox/stats", "", nil).body, &stats))
	require.Equal(t, 1, stats.Credentials[sandbox.ReadOnlyToken].Requests)
	require.Equal(t, []sandbox.Call{{Method: "POST", Path: "/api/login", Stream: "auth.login", Count: 1}}, stats.Outside)
	require.Len(t, stats.Calls, 2)

	truth, ok := d.call("GET", "/_sandbox/truth/hr.branches", "", nil).json(t).([]any)
	require.True(t, ok)
	require.Len(t, truth, 3)
	require.Equal(t, 400, d.call("GET", "/_sandbox/truth/no.such", "", nil).status)
	require.Equal(t, 200, d.call("POST", "/_sandbox/touch", "", map[string]any{"fraction": 1}).status)
	require.NotEqual(t, texts(t, truth), texts(t, d.truth("hr.branches")))
	require.Equal(t, 200, d.call("POST", "/_sandbox/reset", "", nil).status)
	require.Equal(t, texts(t, truth), texts(t, d.truth("hr.branches")))
	d.call("DELETE", "/_sandbox/stats", "", nil)
	require.Zero(t, d.Stats().Requests)
}

func TestGzipOnRequest(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{Gzip: true, NoLimits: true})
	plain := open(t, sandbox.Options{NoLimits: true}).call("GET", "/api/customers", sandbox.ReadOnlyToken, nil)
	require.NotEmpty(t, plain.header.Get("Content-Length"))
	r, err := http.NewRequestWithContext(t.Context(), "GET", d.url+"/api/customers", nil)
	require.NoError(t, err)
	r.Header.Set("Accept-Encoding", "gzip")
	r.Header.Set("Authorization", "Bearer "+sandbox.ReadOnlyToken)
	response, err := d.client.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, "gzip", response.Header.Get("Content-Encoding"))
	z, err := gzip.NewReader(response.Body)
	require.NoError(t, err)
	body, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, string(plain.body), string(body))
}

func TestContactsAtScale(t *testing.T) {
	t.Parallel()
	const n = 2500
	d := open(t, sandbox.Options{Contacts: n, NoLimits: true})
	s, _ := d.catalogue.Find("v2.contacts")
	truth := texts(t, d.truth("v2.contacts"))
	require.Len(t, truth, n)
	var got []any
	path := "/v2/contacts?limit=5000"
	for more := true; more; {
		page, ok := d.call("GET", path, tokenOf(s), nil).json(t).(map[string]any)
		require.True(t, ok)
		records := page["data"].([]any)
		require.LessOrEqual(t, len(records), 1000)
		got = append(got, records...)
		more = page["has_more"].(bool)
		path = "/v2/contacts?limit=1000&starting_after=" + records[len(records)-1].(map[string]any)["id"].(json.Number).String()
	}
	require.Equal(t, truth, texts(t, got))
	require.Len(t, got[0], 25)

	var lines bytes.Buffer
	require.NoError(t, d.WriteContactsNDJSON(&lines, n))
	average := lines.Len() / n
	require.InDelta(t, 709, average, 30, "bytes a record")
	require.Equal(t, n, strings.Count(lines.String(), "\n"))

	touched := d.Touch(0.1)
	changed := 0
	for i, r := range texts(t, d.truth("v2.contacts")) {
		if r != truth[i] {
			changed++
		}
	}
	require.Equal(t, touched, changed)
	require.InDelta(t, n/10, changed, 80)
	require.Equal(t, 404, d.call("GET", "/v2/contacts?starting_after=1", tokenOf(s), nil).status)
}

func TestStaleAnswers(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{NoLimits: true})
	show := func(id string) answer { return d.call("GET", "/api/lead/show/"+id, sandbox.ReadOnlyToken, nil) }
	first := show("3").body
	require.Equal(t, 200, d.writing("POST", "/api/lead/update/3", map[string]any{"subject": "new"}).status)
	made := d.make("POST /api/lead/create", map[string]any{"name": "Ada", "email": "a@example.test"})
	require.Equal(t, 200, d.writing("DELETE", "/api/lead/delete/5", nil).status)
	stale, err := sandbox.ParseFault("crm.*=stale,count=4")
	require.NoError(t, err)
	require.NoError(t, d.SetFaults(stale))
	require.Equal(t, first, show("3").body)
	require.Equal(t, 404, show(made).status)
	require.Equal(t, 200, show("5").status, "the deleted record is still served")
	require.Equal(t, 200, show("7").status, "an unchanged record stays the same")
	require.NotEqual(t, first, show("3").body, "the fault is over")
	require.Equal(t, 200, show(made).status)
	require.Equal(t, 404, show("5").status)
}
