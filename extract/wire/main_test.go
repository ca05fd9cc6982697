package wire

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/extract/wire/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var reads = []Route{
	{"GET", "/v2/contacts"}, {"GET", "/v2/contacts/{id}"}, {"GET", "/v2/invoices/{id}/pdf"},
	{"GET", "/a"}, {"GET", "/b"}, {"GET", "/b/2"}, {"GET", "/c"}, {"GET", "/d"},
	{"GET", "/api/leads"}, {"POST", "/api/lead/leadboard"},
}

// How the governor handles a server that fails: see package budget.
const (
	outageFailures = 16 // failures in a row after which the governor stops all requests for a time
	firstOutage    = 2 * time.Second
)

var contacts = Request{Path: "/v2/contacts"}

func open(t *testing.T, h http.Handler, change func(*Options)) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return client(t, srv.URL, change)
}

func client(t *testing.T, base string, change func(*Options)) *Client {
	t.Helper()
	o := Options{Name: "test", BaseURL: base, Allow: reads, Rate: budget.Rate{Limit: 1000, Window: time.Second}, Credential: Bearer("sk_test_0123456789")}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func virtualClient(t *testing.T, h http.Handler, change func(*Options)) *Client {
	t.Helper()
	dial, stop := wiretest.Serve(h)
	t.Cleanup(func() { require.NoError(t, stop()) })
	return client(t, wiretest.URL, func(o *Options) {
		o.Dial = dial
		if change != nil {
			change(o)
		}
	})
}

func faultOf(t *testing.T, err error, class Class) *Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	require.True(t, ok, "%T %v", err, err)
	require.Equal(t, class.String(), e.Class.String(), "%v", err)
	return e
}

type answers struct {
	mu    sync.Mutex
	list  []http.HandlerFunc
	times []time.Time
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	h := a.list[min(len(a.times), len(a.list)-1)]
	a.times = append(a.times, time.Now())
	a.mu.Unlock()
	h(w, r)
}

func (a *answers) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.times)
}

func inTurn(list ...http.HandlerFunc) *answers { return &answers{list: list} }

func text(status int, contentType, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Add(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func jsonText(status int, body string, header ...string) http.HandlerFunc {
	return text(status, "application/json", body, header...)
}

const page = `{"data":[{"id":1}]}`

var good = jsonText(200, page)

func succeed(t *testing.T, c *Client) { answer(t, c, &http.Response{StatusCode: http.StatusOK}) }

func closeGate(t *testing.T, c *Client, d time.Duration) {
	wait := strconv.Itoa(int(d.Seconds()))
	answer(t, c, &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {wait}}})
}

func answer(t *testing.T, c *Client, resp *http.Response) {
	t.Helper()
	p, err := c.Governor().Take(t.Context(), time.Hour)
	require.NoError(t, err)
	p.Sent()
	p.Answered(resp)
	p.Done()
}

// bubble runs f in virtual time. Virtual time begins in the year 2000, and Unix times of that year are not recognized
// in headers. So bubble first waits until 2026.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 21, 10, 0, 0, 123456789, time.UTC)))
		f(t)
	})
}
