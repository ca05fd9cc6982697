package receive

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/signature"
	"github.com/penstock-data/penstock/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testSecret = "whsec_of_the_tests"

func verifier(t testing.TB) *signature.Verifier {
	t.Helper()
	scheme, ok := signature.Preset("stripe", "Service-Signature")
	require.True(t, ok)
	v, err := signature.Compile([]signature.Scheme{scheme}, []signature.Key{{Secret: testSecret, Label: "now"}})
	require.NoError(t, err)
	return v
}

// sign signs a body, without the code under test.
func sign(body []byte) string { return signAt(body, time.Now()) }

func signAt(body []byte, at time.Time) string {
	ts := strconv.FormatInt(at.Unix(), 10)
	m := hmac.New(sha256.New, []byte(testSecret))
	fmt.Fprintf(m, "%s.%s", ts, body)
	return "t=" + ts + ",v1=" + hex.EncodeToString(m.Sum(nil))
}

type rig struct {
	*httptest.Server
	*Handler
	inbox *state.InboxFile
	dir   string
	log   syncBuffer

	mu   sync.Mutex
	seen map[string]int
	new  atomic.Int64
	hint sync.Map
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir(), seen: map[string]int{}}
	var err error
	r.inbox, err = state.OpenInbox(t.Context(), r.dir, state.InboxOptions{})
	require.NoError(t, err)
	r.Handler = New(Options{
		Inbox: r.inbox, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
		Received: func(string) { r.new.Add(1) },
		Hinted: func(source string) {
			n, _ := r.hint.LoadOrStore(source, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
		},
		Observe: func(s serve.WebhookSeen) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.seen[s.Source+" "+s.Verdict]++
		},
	})
	r.Define(Sources{"main": verifier(t), "learning": nil})
	r.Server = httptest.NewUnstartedServer(r.Handler)
	r.Config.ReadHeaderTimeout = 5 * time.Second
	r.Start()
	t.Cleanup(func() {
		r.Client().CloseIdleConnections()
		r.Close()
		require.NoError(t, r.inbox.Close())
	})
	return r
}

func (r *rig) verdicts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]int{}
	for k, n := range r.seen {
		all[k] = n
	}
	return all
}

func TestDeliveriesByTheSharedClock(t *testing.T) {
	for _, apart := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		r := newRig(t)
		now := func() time.Time { return time.Now().Add(apart) }
		r.options.Now = now
		body, begun := []byte(`{"id":"1"}`), now()
		a := r.send(t, "main", body, map[string]string{"Content-Type": "application/json", "Service-Signature": signAt(body, now())})
		require.Equal(t, http.StatusOK, a.status, a.body)
		es, err := r.inbox.Events(t.Context(), "main", 0, 10)
		require.NoError(t, err)
		require.Len(t, es, 1)
		require.WithinRange(t, es[0].Received, begun.Add(-time.Millisecond), now())
		a = r.send(t, "main", body, map[string]string{"Content-Type": "application/json", "Service-Signature": sign(body)})
		require.Equal(t, http.StatusUnauthorized, a.status, "the signed time is hours ago, or hours ahead")
	}
}

type answered struct {
	status int
	body   string
	header http.Header
}

func (r *rig) send(t testing.TB, source string, body []byte, header map[string]string) answered {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+"/webhooks/"+source, bytes.NewReader(body))
	require.NoError(t, err)
	for k, v := range header {
		q.Header.Set(k, v)
	}
	return r.do(t, q)
}

func (r *rig) do(t testing.TB, q *http.Request) answered {
	t.Helper()
	a, err := r.Client().Do(q)
	require.NoError(t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	return answered{a.StatusCode, string(text), a.Header}
}

func (r *rig) deliver(t testing.TB, body string) answered {
	t.Helper()
	return r.send(t, "main", []byte(body), map[string]string{"Content-Type": "application/json", "Service-Signature": sign([]byte(body))})
}

func (r *rig) events(t testing.TB) []state.Event {
	t.Helper()
	es, err := r.inbox.Events(t.Context(), "main", 0, 1e6)
	require.NoError(t, err)
	return es
}

func TestDelivery(t *testing.T) {
	r := newRig(t)
	a := r.deliver(t, `{"id":"evt_1","type":"crm.lead.created","data":{}}`)
	require.Equal(t, 200, a.status)
	require.Empty(t, a.body)
	es := r.events(t)
	require.Len(t, es, 1)
	e := es[0]
	require.Equal(t, "evt_1", e.ID)
	require.Equal(t, "crm.lead.created", e.Type)
	require.Equal(t, "stripe", e.Scheme)
	require.Equal(t, `{"id":"evt_1","type":"crm.lead.created","data":{}}`, string(e.Body))
	require.Equal(t, map[string]string{"Content-Type": "application/json", "User-Agent": "Go-http-client/1.1"}, e.Header)
	require.WithinDuration(t, time.Now(), e.Received, time.Minute)
	require.EqualValues(t, 1, r.new.Load())
}

func TestRepetition(t *testing.T) {
	r := newRig(t)
	for range 100 {
		require.Equal(t, 200, r.deliver(t, `{"id":"evt_1","type":"a"}`).status)
	}
	require.Equal(t, 200, r.deliver(t, `{"id":"evt_1","type":"b"}`).status)
	es := r.events(t)
	require.Len(t, es, 2)
	require.True(t, es[0].Conflict && es[1].Conflict, "neither of the two events is used as data")
	require.Equal(t, map[string]int{"main stored": 1, "main duplicate": 99, "main conflict": 1}, r.verdicts())
}

type late struct{ Inbox }

func (l late) Append(ctx context.Context, e state.Event) (state.Appended, error) {
	_, err := l.Inbox.Append(ctx, e)
	return "", errors.Join(err, context.DeadlineExceeded)
}

// An event is stored, but its sender gets an error. When the sender repeats the event, Received is called.
func TestRepetitionOfWhatWasKeptLate(t *testing.T) {
	r := newRig(t)
	good := r.options.Inbox
	r.options.Inbox = late{good}
	require.Equal(t, 503, r.deliver(t, `{"id":"evt_1"}`).status)
	require.Len(t, r.events(t), 1)
	require.Zero(t, r.new.Load())
	r.options.Inbox = good
	require.Equal(t, 200, r.deliver(t, `{"id":"evt_1"}`).status)
	require.Equal(t, 1, r.verdicts()["main duplicate"])
	require.EqualValues(t, 1, r.new.Load(), "the applier is woken")
}

func TestOddBodies(t *testing.T) {
	bodies := map[string]string{ // the type of the event, by its body
		`{"id":"a"}`: "", `{"type":7}`: "", `{"type":"../../x"}`: "../../x", `[{"type":"x"}]`: "", `no JSON`: "", ``: "", "\xff\xfe": "",
		`{"type":"` + strings.Repeat("x", 300) + `"}`: strings.Repeat("x", 300),
		`{"event":"New Lead","module":"CRM"}`:         "New Lead",
		`{"event":"New Lead","type":"lead.created"}`:  "lead.created",
		`{"data":{"type":"inner"},"type":"outer"`:     "outer",
		`{"type":null,"event":["x"]}`:                 "",
	}
	r := newRig(t)
	for body, want := range bodies {
		require.Equal(t, 200, r.deliver(t, body).status, body)
		es := r.events(t)
		e := es[len(es)-1]
		require.Equal(t, body, string(e.Body))
		require.Equal(t, want, e.Type)
	}
	require.Len(t, r.events(t), len(bodies))
}

func TestRefusals(t *testing.T) {
	const body = `{"id":"evt_1"}`
	good := sign([]byte(body))
	r := newRig(t)
	for name, tt := range map[string]struct {
		method, path string
		header       map[string]string
		want         int
	}{
		"get":              {method: "GET", want: 405},
		"head":             {method: "HEAD", want: 405},
		"options":          {method: "OPTIONS", want: 405},
		"trace":            {method: "TRACE", want: 405},
		"put":              {method: "PUT", want: 405},
		"unsigned":         {header: map[string]string{"Service-Signature": ""}, want: 401},
		"wrong":            {header: map[string]string{"Service-Signature": strings.Replace(good, "v1=", "v1=00", 1)}, want: 401},
		"unknown source":   {path: "/webhooks/nobody", want: 401},
		"trailing slash":   {path: "/webhooks/main/", want: 401},
		"double slash":     {path: "/webhooks//main", want: 401},
		"escaped":          {path: "/webhooks/%6dain", want: 401},
		"climbing":         {path: "/webhooks/x/../main", want: 401},
		"multipart":        {header: map[string]string{"Content-Type": "multipart/form-data; boundary=x"}, want: 415},
		"image":            {header: map[string]string{"Content-Type": "image/png"}, want: 415},
		"no type at all":   {header: map[string]string{"Content-Type": "/;;"}, want: 415},
		"gzip":             {header: map[string]string{"Content-Encoding": "gzip"}, want: 415},
		"gzip in a list":   {header: map[string]string{"Content-Encoding": "identity, gzip"}, want: 415},
		"identity":         {header: map[string]string{"Content-Encoding": "identity"}, want: 200},
		"charset":          {header: map[string]string{"Content-Type": "application/json; charset=ISO-8859-1"}, want: 200},
		"bad parameter":    {header: map[string]string{"Content-Type": "application/json; charset"}, want: 200},
		"json of a vendor": {header: map[string]string{"Content-Type": "application/vnd.api+json"}, want: 200},
		"query":            {path: "/webhooks/main?x=1", want: 200},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := http.NewRequestWithContext(t.Context(), cmpOr(tt.method, "POST"), r.URL+cmpOr(tt.path, "/webhooks/main"), strings.NewReader(body))
			require.NoError(t, err)
			q.Header.Set("Service-Signature", good)
			q.Header.Set("Content-Type", "application/json")
			for k, v := range tt.header {
				q.Header.Set(k, v)
			}
			a := r.do(t, q)
			require.Equal(t, tt.want, a.status)
			switch tt.want {
			case 401:
				require.Equal(t, "unauthorized\n", a.body, "the body is the same, whatever the reason")
			case 405:
				require.Equal(t, "POST", a.header.Get("Allow"))
			}
		})
	}
	for verdict := range r.verdicts() {
		require.NotContains(t, verdict, "nobody", "names of unknown sources do not become labels of metrics")
	}
	require.NotContains(t, r.log.String(), good, "signatures are not logged")
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func TestLearning(t *testing.T) {
	r := newRig(t)
	body := `{"id":"evt_1","type":"x"}`
	header := map[string]string{"Service-Signature": sign([]byte(body)), "Authorization": "Bearer secret", "Cookie": "c=secret"}
	require.Equal(t, 200, r.send(t, "learning", []byte(body), header).status)
	require.Equal(t, 200, r.send(t, "learning", []byte("forged"), map[string]string{"Service-Signature": "t=1,v1=00"}).status)
	es, err := r.inbox.Events(t.Context(), "learning", 0, 10)
	require.NoError(t, err)
	require.Empty(t, es, "nothing is applied")
	require.Zero(t, r.new.Load())
	deliveries, _, err := Captured(t.Context(), r.inbox, "learning")
	require.NoError(t, err)
	require.Len(t, deliveries, 2)
	d := deliveries[0]
	require.Equal(t, []string{"POST", "/webhooks/learning", ""}, []string{d.Method, d.Path, d.Query})
	require.Equal(t, body, string(d.Body))
	require.NotContains(t, fmt.Sprint(d.Header), "secret")
	_, err = r.Adopt(t.Context(), "learning")
	require.ErrorContains(t, err, "is not known")

	r.Define(Sources{"learning": verifier(t)})
	n, err := r.Adopt(t.Context(), "learning")
	require.NoError(t, err)
	require.Equal(t, 1, n, "only the verified delivery becomes an event")
	es, err = r.inbox.Events(t.Context(), "learning", 0, 10)
	require.NoError(t, err)
	require.Len(t, es, 1)
	require.Equal(t, "evt_1", es[0].ID)
	n, err = r.Adopt(t.Context(), "learning")
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, 200, r.send(t, "learning", []byte(body), header).status)
	require.Equal(t, 1, r.verdicts()["learning duplicate"], "a repetition of an adopted delivery is a duplicate")
}

// Hinted is called for each unverified or forged delivery to a known source, and not for other requests.
func TestHints(t *testing.T) {
	r := newRig(t)
	hints := func(source string) int64 {
		n, ok := r.hint.Load(source)
		if !ok {
			return 0
		}
		return n.(*atomic.Int64).Load()
	}
	require.Equal(t, 200, r.deliver(t, `{"id":"evt_1","type":"a"}`).status)
	require.Equal(t, 401, r.send(t, "nobody", []byte("{}"), nil).status)
	require.Equal(t, 415, r.send(t, "main", []byte("{}"), map[string]string{"Content-Type": "text/html"}).status)
	require.Zero(t, hints("main")+hints("nobody"))
	for range 20 {
		require.Equal(t, 401, r.send(t, "main", []byte(`{"id":"evt_2","type":"contact.deleted","data":{"id":1}}`), nil).status)
	}
	require.EqualValues(t, 20, hints("main"))
	require.Len(t, r.events(t), 1, "unverified deliveries are not stored")
	require.Equal(t, 200, r.send(t, "learning", []byte("{}"), nil).status)
	require.EqualValues(t, 1, hints("learning"))
}

// A stranger sends deliveries while the scheme is not known. The stranger's deliveries get the same response as real
// deliveries, and only the newest are kept.
func TestLearningIsBounded(t *testing.T) {
	r := newRig(t)
	for n := range 120 {
		require.Equal(t, 200, r.send(t, "learning", fmt.Appendf(nil, "%d", n), nil).status)
	}
	kept, err := r.inbox.Captures(t.Context(), "learning")
	require.NoError(t, err)
	require.Len(t, kept, 20, "at most 20 deliveries from one address are kept")
	require.Equal(t, "119", string(kept[19].Body))
}

type failing struct {
	Inbox
	err error
}

func (f failing) Append(context.Context, state.Event) (state.Appended, error) { return "", f.err }

func TestNothingKeptNothingAcknowledged(t *testing.T) {
	r := newRig(t)
	good := r.options.Inbox
	for err, verdict := range map[error]string{
		fmt.Errorf("append: %w", state.ErrInboxFull): "main inbox full", state.ErrInboxClosed: "main inbox unavailable",
		errors.New("disk i/o error"): "main inbox unavailable", context.DeadlineExceeded: "main inbox unavailable",
	} {
		before := r.verdicts()[verdict]
		r.options.Inbox = failing{err: err}
		a := r.deliver(t, `{"id":"evt_1"}`)
		require.Equal(t, 503, a.status)
		require.Equal(t, "5", a.header.Get("Retry-After"))
		require.Equal(t, before+1, r.verdicts()[verdict])
	}
	r.options.Inbox = good
	require.Equal(t, 200, r.deliver(t, `{"id":"evt_1"}`).status)
}

func TestLogIsSampled(t *testing.T) {
	s := &sampled{}
	now := time.Now()
	written := 0
	for n := range 1000 {
		if write, left := s.next(now.Add(time.Duration(n) * time.Millisecond)); write {
			written++
			require.Zero(t, left)
		}
	}
	require.Equal(t, linesEach, written)
	write, left := s.next(now.Add(time.Second))
	require.True(t, write)
	require.Equal(t, 1000-linesEach, left)
	_, left = s.next(now.Add(-time.Hour))
	require.Zero(t, left, "after the clock was set back, no line is omitted")
}
