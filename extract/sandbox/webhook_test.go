package sandbox_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock-data/penstock/extract/sandbox"
)

type arrival struct {
	header http.Header
	body   []byte
	ID     string
	Type   string
	Data   json.RawMessage
}

type listener struct {
	*httptest.Server
	answer func(n int) int

	mu  sync.Mutex
	got []arrival
}

func listen(t *testing.T, answer func(n int) int) *listener {
	l := newListener(answer)
	t.Cleanup(l.Close)
	return l
}

func newListener(answer func(n int) int) *listener {
	l := &listener{answer: answer}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		a := arrival{header: r.Header.Clone(), body: body}
		_ = json.Unmarshal(body, &a) // an unknown event may have another form
		l.mu.Lock()
		l.got = append(l.got, a)
		n := len(l.got)
		l.mu.Unlock()
		if l.answer != nil {
			w.WriteHeader(l.answer(n))
		}
	}))
	return l
}

func (l *listener) arrivals() []arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got)
}

func (l *listener) ids() []string {
	var all []string
	for _, a := range l.arrivals() {
		all = append(all, a.ID)
	}
	return all
}

func hook(t *testing.T, s *sandbox.Server, w sandbox.Webhook) {
	t.Helper()
	if w.Secret == "" {
		w.Secret = "shared secret"
	}
	_, err := s.Subscribe(w)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
}

func drain(t *testing.T, s *sandbox.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, s.Drain(ctx))
}

func TestWritesAreAnnounced(t *testing.T) {
	t.Parallel()
	tests := []struct{ route, kind, data string }{
		{"POST /v2/contacts", "contact.created", `{"id":"con_new119","object":"contact","name":"Ada","email":"ada@example.test"}`},
		{"PUT /v2/contacts/con_new119", "contact.updated", `{"id":"con_new119","object":"contact","name":"Ada","email":"ada@example.test"}`},
		{"DELETE /v2/contacts/con_new119", "contact.deleted", `{"id":"con_new119","object":"contact","name":"Ada","email":"ada@example.test"}`},
		{"POST /api/lead/create", "lead.created", `{"lead":{"id":45,"name":"Ada","email":"ada@example.test","subject":"Plan a 10% discount",` +
			`"pipeline":"Marketing","stage":"Sent","sources":"Phone","date":"02-11-2026","created_at":"20-11-2026 10:09"}}`},
		{"POST /api/sales-invoice/post/3", "sales_invoice.posted", ""},
		{"POST /api/sales-proposal/convert-to-invoice/2", "sales_proposal.converted", ""},
		{"POST /api/project/task-subtask/create/4", "subtask.created", `[]`},
	}
	d := open(t, sandbox.Options{NoLimits: true})
	l := listen(t, nil)
	hook(t, d.Server, sandbox.Webhook{URL: l.URL})
	for _, tt := range tests {
		method, path, _ := strings.Cut(tt.route, " ")
		row := map[string]any{"name": "Ada", "email": "ada@example.test", "pipeline_id": 2, "stage_id": 7, "sources": "2,1", "date": "2026-11-02", "subject": "Plan a 10% discount"}
		before := len(l.arrivals())
		require.Less(t, d.writing(method, path, row).status, 300, tt.route)
		drain(t, d.Server)
		got := l.arrivals()[before:]
		i := slices.IndexFunc(got, func(a arrival) bool { return a.Type == tt.kind })
		require.GreaterOrEqual(t, i, 0, "%s announces %s, not %v", tt.route, tt.kind, got)
		if tt.data != "" {
			require.JSONEq(t, tt.data, string(got[i].Data), tt.route)
		}
		require.Regexp(t, `^evt_[0-9A-Za-z]{20}$`, got[i].ID)
		require.Equal(t, "application/json", got[i].header.Get("Content-Type"))
	}
	require.Contains(t, l.arrivals()[5].Type+l.arrivals()[6].Type, "sales_invoice.created", "converting a document creates another document")
}

func TestTouchIsAnnounced(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{NoLimits: true})
	l := listen(t, nil)
	hook(t, d.Server, sandbox.Webhook{URL: l.URL, Types: []string{"lead.*", "ticket.*"}})
	d.Touch(1)
	drain(t, d.Server)
	kinds := map[string]int{}
	for _, a := range l.arrivals() {
		kinds[a.Type]++
	}
	require.Equal(t, map[string]int{"lead.updated": 44}, kinds, "tickets of v2 have no time of change, and the webhook subscribes to no other events")
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	sum := func(key string, parts ...string) []byte {
		m := hmac.New(sha256.New, []byte(key))
		io.WriteString(m, strings.Join(parts, ""))
		return m.Sum(nil)
	}
	const standard = "whsec_c2hhcmVkIHNlY3JldA=="
	tests := []struct {
		scheme sandbox.Scheme
		secret string
		header string // header with the signature
		want   func(a arrival, body string) string
	}{
		{"", "whsec_text", "Service-Signature", func(a arrival, body string) string {
			at, _, _ := strings.Cut(strings.TrimPrefix(a.header.Get("Service-Signature"), "t="), ",")
			return "t=" + at + ",v1=" + hex.EncodeToString(sum("whsec_text", at, ".", body))
		}},
		{sandbox.Hex, "s", "Service-Signature", func(_ arrival, body string) string { return hex.EncodeToString(sum("s", body)) }},
		{sandbox.Base64, "s", "Service-Signature", func(_ arrival, body string) string { return base64.StdEncoding.EncodeToString(sum("s", body)) }},
		{sandbox.Standard, standard, "Service-Signature", func(a arrival, body string) string {
			return "v1," + base64.StdEncoding.EncodeToString(sum("shared secret", a.header.Get("Webhook-Id"), ".", a.header.Get("Webhook-Timestamp"), ".", body))
		}},
		{sandbox.Slack, "s", "Service-Signature", func(a arrival, body string) string {
			return "v0=" + hex.EncodeToString(sum("s", "v0:", a.header.Get("X-Slack-Request-Timestamp"), ":", body))
		}},
	}
	for _, tt := range tests {
		t.Run(string(tt.scheme), func(t *testing.T) {
			t.Parallel()
			d := open(t, sandbox.Options{NoLimits: true})
			l := listen(t, nil)
			hook(t, d.Server, sandbox.Webhook{URL: l.URL, Secret: tt.secret, Scheme: tt.scheme, Faults: sandbox.WebhookFaults{Forged: 1}})
			require.Equal(t, 200, d.writing("POST", "/api/lead/create", map[string]any{"name": "Zoë/Ada", "email": "a@example.test"}).status)
			drain(t, d.Server)
			got := l.arrivals()
			require.Len(t, got, 2, "a genuine delivery and a forged delivery")
			require.Contains(t, string(got[0].body), `Zo\u00eb\/Ada`, "in PHP's encoding, so that a re-encoded body cannot be verified")
			require.Equal(t, tt.want(got[0], string(got[0].body)), got[0].header.Get(tt.header))
			require.NotEqual(t, tt.want(got[1], string(got[1].body)), got[1].header.Get(tt.header))
			require.Equal(t, got[0].body, got[1].body)
		})
	}
}

func TestSubscriptionsAreChecked(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{})
	for _, w := range []sandbox.Webhook{
		{URL: "localhost", Secret: "s"},
		{URL: "http://localhost/x"},
		{URL: "http://localhost/x", Secret: "s", Scheme: "morse"},
		{URL: "http://localhost/x", Secret: "whsec_?", Scheme: sandbox.Standard},
		{URL: "http://localhost/x", Secret: "s", Types: []string{"[a"}},
		{URL: "http://localhost/x", Secret: "s", Connections: 5000},
		{URL: "http://localhost/x", Secret: "s", Faults: sandbox.WebhookFaults{Loss: 1.5}},
		{URL: "http://localhost/x", Secret: "s", Faults: sandbox.WebhookFaults{Window: -1}},
	} {
		_, err := d.Subscribe(w)
		require.Error(t, err, "%+v", w)
	}
	require.Empty(t, d.Webhooks())
	require.ErrorIs(t, d.Unsubscribe(1), sandbox.ErrNoWebhook)
}

func TestDeliveriesAreRetried(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer func(n int) int
		want   sandbox.WebhookStatus
	}{
		{"accepted at last", func(n int) int { return []int{503, 429, 200}[n-1] }, sandbox.WebhookStatus{Attempts: 3, Acknowledged: 1}},
		{"refused for good", func(int) int { return 401 }, sandbox.WebhookStatus{Attempts: 1, Refused: 1}},
		{"moved", func(int) int { return 302 }, sandbox.WebhookStatus{Attempts: 1, Refused: 1}},
		{"given up", func(int) int { return 500 }, sandbox.WebhookStatus{Attempts: 4, Refused: 1}},
		{"no answer", func(int) int { panic(http.ErrAbortHandler) }, sandbox.WebhookStatus{Attempts: 4, GivenUp: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := open(t, sandbox.Options{NoLimits: true})
			l := listen(t, tt.answer)
			hook(t, d.Server, sandbox.Webhook{URL: l.URL, Backoff: sandbox.Duration(time.Millisecond)})
			require.Equal(t, 201, d.writing("POST", "/v2/contacts", map[string]any{"name": "Ada"}).status)
			drain(t, d.Server)
			got := d.Webhooks()[0]
			require.Equal(t, []int{tt.want.Attempts, tt.want.Acknowledged, tt.want.Refused, tt.want.GivenUp, 0},
				[]int{got.Attempts, got.Acknowledged, got.Refused, got.GivenUp, got.Pending})
			require.Len(t, l.arrivals(), tt.want.Attempts)
		})
	}
}

func TestFaultsAreDeterministic(t *testing.T) {
	t.Parallel()
	send := func(seed uint64, connections int) ([]sandbox.Delivery, []string) {
		d := open(t, sandbox.Options{Seed: seed})
		l := listen(t, nil)
		hook(t, d.Server, sandbox.Webhook{URL: l.URL, Connections: connections, Faults: sandbox.WebhookFaults{
			Duplicate: 0.3, Reorder: 0.3, Delay: 0.1, Loss: 0.2, Conflict: 0.2, Unknown: 0.2}})
		_, err := d.Flood(t.Context(), sandbox.Flood{Count: 60, Change: 0.3, Match: "[cl]*"})
		require.NoError(t, err)
		drain(t, d.Server)
		all := d.Deliveries()
		var acknowledged []string
		for i, one := range all {
			require.Equal(t, one.Kind != sandbox.DeliveredLost, one.Acknowledged)
			if one.Acknowledged {
				acknowledged = append(acknowledged, one.Event)
			}
			all[i].At, all[i].Took = time.Time{}, 0
		}
		arrived := l.ids()
		require.ElementsMatch(t, acknowledged, arrived)
		return all, arrived
	}
	planned, _ := send(1, 1)
	again, _ := send(1, 4)
	require.Equal(t, planned, again)
	other, _ := send(2, 1)
	require.NotEqual(t, planned[0].Event, other[0].Event)
}

func TestReorderedDeliveries(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{})
	l := listen(t, nil)
	hook(t, d.Server, sandbox.Webhook{URL: l.URL, Faults: sandbox.WebhookFaults{Reorder: 0.5, Window: 5}})
	_, err := d.Flood(t.Context(), sandbox.Flood{Count: 200})
	require.NoError(t, err)
	drain(t, d.Server)
	place := map[string]int{}
	for i, delivery := range d.Deliveries() {
		place[delivery.Event] = i
	}
	moved := 0
	for i, id := range l.ids() {
		require.LessOrEqual(t, max(i-place[id], place[id]-i), 5, "window")
		if place[id] != i {
			moved++
		}
	}
	require.Greater(t, moved, 50)
}

func TestFlood(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]sandbox.Options{"world": {}, "contacts": {Contacts: 1000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, o)
			before := texts(t, d.truth("v2.contacts"))
			l := listen(t, nil)
			hook(t, d.Server, sandbox.Webhook{URL: l.URL, Connections: 64})
			var got sandbox.FloodReport
			ask := sandbox.Flood{Count: 2000, Match: "contact", Subjects: 10, Change: 0.1, Bytes: 1000}
			require.NoError(t, json.Unmarshal(d.call("POST", "/_sandbox/webhooks/flood", "", ask).body, &got))
			require.Equal(t, 2000, got.Events)
			require.InDelta(t, 200, got.Changes, 60)
			require.Equal(t, 200, d.call("POST", "/_sandbox/webhooks/drain", "", nil).status)

			subjects, ids := map[string]bool{}, map[string]bool{}
			for _, a := range l.arrivals() {
				var data struct{ ID any }
				require.NoError(t, json.Unmarshal(a.Data, &data))
				subjects[string(a.Data)[:24]] = true
				ids[a.ID] = true
				require.Equal(t, "contact.updated", a.Type)
			}
			require.Len(t, ids, 2000)
			require.LessOrEqual(t, len(subjects), 10)
			require.True(t, slices.ContainsFunc(l.arrivals(), func(a arrival) bool { return len(a.body) == 1000 }))
			require.NotEmpty(t, difference(before, texts(t, d.truth("v2.contacts"))), "the records have changed")

			acknowledged := d.call("GET", "/_sandbox/webhooks/log?acknowledged=true", "", nil).body
			require.Equal(t, 2000, bytes.Count(acknowledged, []byte("\n")))
			require.Empty(t, d.call("GET", "/_sandbox/webhooks/log?acknowledged=false", "", nil).body)
		})
	}
}

func TestFloodKeepsItsRate(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{})
	l := listen(t, nil)
	hook(t, d.Server, sandbox.Webhook{URL: l.URL, Connections: 8})
	report, err := d.Flood(t.Context(), sandbox.Flood{Rate: 500, For: sandbox.Duration(200 * time.Millisecond)})
	require.NoError(t, err)
	require.Equal(t, 100, report.Events)
	require.GreaterOrEqual(t, time.Duration(report.Took), 190*time.Millisecond, "never faster")
	_, err = d.Flood(t.Context(), sandbox.Flood{Count: 1, Match: "nobody"})
	require.ErrorContains(t, err, "no module")
	_, err = d.Flood(t.Context(), sandbox.Flood{Rate: 3})
	require.ErrorContains(t, err, "set count")
}

func TestWebhooksAreControlled(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{NoLimits: true})
	l := listen(t, nil)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	a := d.call("POST", "/_sandbox/webhooks", "", map[string]any{"url": l.URL, "secret": "s", "faults": map[string]any{"duplicate": 1}, "backoff": "5ms"})
	require.JSONEq(t, `{"webhook":1}`, string(a.body))
	require.Equal(t, 400, d.call("POST", "/_sandbox/webhooks", "", map[string]any{"url": l.URL}).status)
	d.writing("DELETE", "/v2/contacts/"+d.truth("v2.contacts")[0].(map[string]any)["id"].(string), nil)
	d.call("POST", "/_sandbox/webhooks/drain", "", nil)

	var all []sandbox.WebhookStatus
	require.NoError(t, json.Unmarshal(d.call("GET", "/_sandbox/webhooks", "", nil).body, &all))
	require.Equal(t, 1, all[0].Events)
	require.Greater(t, all[0].Acknowledged, 1)
	require.Positive(t, all[0].Slowest)
	require.Equal(t, 404, d.call("DELETE", "/_sandbox/webhooks/x", "", nil).status)
	require.Equal(t, 400, d.call("DELETE", "/_sandbox/webhooks/7", "", nil).status)
	require.Equal(t, 200, d.call("DELETE", "/_sandbox/webhooks/1", "", nil).status)
	require.Empty(t, d.Webhooks())
	require.Equal(t, 400, d.call("GET", "/_sandbox/webhooks/log?acknowledged=perhaps", "", nil).status)
}

func TestUnsubscribeEndsDeliveries(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s, err := sandbox.New(sandbox.Options{})
	require.NoError(t, err)
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	_, err = s.Subscribe(sandbox.Webhook{URL: server.URL, Secret: "s", Connections: 3, Faults: sandbox.WebhookFaults{Delay: 0.5}})
	require.NoError(t, err)
	_, err = s.Flood(t.Context(), sandbox.Flood{Count: 30})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "a second close does nothing")
}

func TestParseWebhookFlags(t *testing.T) {
	t.Parallel()
	f, err := sandbox.ParseWebhookFaults("duplicate=0.1,window=3,delay_for=5s")
	require.NoError(t, err)
	require.Equal(t, sandbox.WebhookFaults{Duplicate: 0.1, Window: 3, DelayFor: sandbox.Duration(5 * time.Second)}, f)
	flood, err := sandbox.ParseFlood("rate=1700,for=1m,match=contact,subjects=5,change=0.5,bytes=100")
	require.NoError(t, err)
	require.Equal(t, 102_000, flood.Count)
	for _, text := range []string{"", "loss", "loss=2", "loss=NaN", "window=x", "nothing=1"} {
		_, err := sandbox.ParseWebhookFaults(text)
		require.Error(t, err, text)
	}
	for _, text := range []string{"", "rate=1", "count=-1", "count=1,change=2", "count=1,match=[", "count=1,x=1"} {
		_, err := sandbox.ParseFlood(text)
		require.Error(t, err, text)
	}
}
