package extract

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/extract/wire/wiretest"
	"github.com/penstock-data/penstock/schemas"
)

// farServer answers each request after the latency, in virtual time. It counts requests in sliding windows, and keeps
// the times of their arrival.
type farServer struct {
	limit   int
	latency time.Duration
	page    http.HandlerFunc

	mu       sync.Mutex
	arrivals []time.Time
	requests []string
	refused  int
}

func (f *farServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(f.latency / 2)
	left, ok := f.arrive(r)
	time.Sleep(f.latency - f.latency/2)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-RateLimit-Limit", fmt.Sprint(f.limit))
	w.Header().Set("X-RateLimit-Remaining", fmt.Sprint(left))
	w.Header().Set("X-RateLimit-Reset", "1")
	if !ok {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	f.page(w, r)
}

func (f *farServer) arrive(r *http.Request) (left int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, n := time.Now(), 0
	for n < len(f.arrivals) && now.Sub(f.arrivals[len(f.arrivals)-1-n]) < time.Second {
		n++
	}
	if n >= f.limit {
		f.refused++
		return 0, false
	}
	f.arrivals, f.requests = append(f.arrivals, now), append(f.requests, r.URL.RequestURI())
	return f.limit - n - 1, true
}

// used() returns which share of the limit was used, from the first request to the last.
func (f *farServer) used() float64 {
	span := f.arrivals[len(f.arrivals)-1].Sub(f.arrivals[0])
	return float64(len(f.arrivals)) / (span.Seconds() + 1/float64(f.limit)) / float64(f.limit)
}

// numbered() serves a list. Its pages state their number and the total.
func numbered(pages int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := number(r, "page", 1)
		items(w, rows((p-1)*10, p*10, 10*pages), 10*pages, p, pages)
	}
}

// far() runs f in virtual time, with a client of the server.
func far(t *testing.T, server *farServer, streams []schemas.Stream, f func(c *Client)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)))
		dial, stop := wiretest.Serve(server)
		var routes []wire.Route
		for _, s := range streams {
			routes = append(routes, wire.Route{Method: s.Method, Path: s.Path})
		}
		w, err := wire.New(wire.Options{Name: "test", BaseURL: wiretest.URL, Allow: routes, Dial: dial,
			Rate: budget.Rate{Limit: server.limit, Window: time.Second}})
		require.NoError(t, err)
		c, err := New(Config{App: w, Selected: streams, Dir: t.TempDir()})
		require.NoError(t, err)
		f(c)
		require.NoError(t, c.Close())
		require.NoError(t, w.Close())
		require.NoError(t, stop())
	})
}

// readAll reads all streams, eight at a time, and returns the number of pages.
func readAll(t *testing.T, c *Client, streams []schemas.Stream) (pages int) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, 8)
	for _, s := range streams {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for _, err := range c.Pages(context.Background(), s, "") {
				if err != nil {
					t.Errorf("%s: %v", s.Name, err)
					return
				}
				mu.Lock()
				pages++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return pages
}

// With a latency of 200 ms, the whole limit is used, whether one list is read or many.
func TestLatency(t *testing.T) {
	seconds := 60
	if testing.Short() {
		seconds = 25
	}
	for _, limit := range []int{100, 500} {
		for _, lists := range []int{1, 10, 149} {
			t.Run(fmt.Sprintf("%d a second, %d lists", limit, lists), func(t *testing.T) {
				var streams []schemas.Stream
				for i := range lists {
					streams = append(streams, list(fmt.Sprintf("x.l%03d", i), "id"))
				}
				pages := seconds * limit / lists
				server := &farServer{limit: limit, latency: 200 * time.Millisecond, page: numbered(pages)}
				far(t, server, streams, func(c *Client) {
					require.Equal(t, pages*lists, readAll(t, c, streams))
				})
				t.Logf("%d requests, %.1f%% of the limit", len(server.arrivals), 100*server.used())
				require.Zero(t, server.refused, "429s")
				require.GreaterOrEqual(t, server.used(), 0.95)
			})
		}
	}
}

// The first pass of a list begins with a negotiation. A pass with a negotiation takes only one round trip more than a
// pass that already knows how to read the list, and requests no page twice.
func TestFirstReading(t *testing.T) {
	s := list("x.things", "id")
	s.Stated = map[string]string{"path": schemas.StatedConfigured}
	server := &farServer{limit: 500, latency: 200 * time.Millisecond, page: numbered(100)}
	var first, known time.Duration
	var requests int
	far(t, server, []schemas.Stream{s}, func(c *Client) {
		begin := time.Now()
		learned, err := c.Negotiate(context.Background(), s)
		require.NoError(t, err)
		require.Equal(t, 100, readAll(t, c, []schemas.Stream{learned.Apply(s)}))
		first, requests = time.Since(begin), len(server.requests)
		begin = time.Now()
		require.Equal(t, 100, readAll(t, c, []schemas.Stream{learned.Apply(s)}))
		known = time.Since(begin)
	})
	t.Logf("first reading %s with %d requests, then %s", first, requests, known)
	times := map[string]int{}
	for _, r := range server.requests[:requests] {
		times[r]++
		require.Equal(t, 1, times[r], "%s was requested twice", r)
	}
	require.LessOrEqual(t, requests, 100+3)
	require.LessOrEqual(t, first-known, server.latency+50*time.Millisecond)
}

// Once it is known which parameter sets the page size of one list, probes of similar lists try this parameter first.
func TestDialect(t *testing.T) {
	var streams []schemas.Stream
	for i := range 3 {
		s := list(fmt.Sprintf("x.l%d", i), "id")
		s.Stated = map[string]string{"path": schemas.StatedConfigured}
		streams = append(streams, s)
	}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		p, size := number(r, "page", 1), min(number(r, "per_page", 10), 100)
		items(w, rows((p-1)*size, p*size, 250), 250, p, (250+size-1)/size)
	}, streams...)
	var requests []int
	for _, s := range streams {
		learned, err := c.Negotiate(t.Context(), s)
		require.NoError(t, err)
		require.Equal(t, "per_page", learned.Pagination.Size)
		require.Equal(t, 100, learned.Pagination.Limit)
		requests = append(requests, learned.Requests)
		r, err := read(c.Client, learned.Apply(s), "")
		require.NoError(t, err)
		require.Equal(t, wanted(250), r.ids())
	}
	require.Equal(t, []int{requests[0], requests[0] - 1, requests[0] - 1}, requests)
}

// Once a pass has sent a request, it uses no more answers that the negotiation has kept. Such an answer is older than
// the answer to the request, so a record that moved to another page in between could be missing from both.
func TestEarlyAnswersInOrder(t *testing.T) {
	s := list("x.things", "id")
	e := (&Client{maxBytes: 64 << 20}).newTestEarly()
	l := &listClient{s: s}
	at := func(page string) paging.Position {
		return paging.Position{Kind: paging.KindPage, Param: "page", At: page}
	}
	begin := time.Now()
	for i, page := range []string{"1", "2", "3"} {
		a := &answer{d: new(jsondoc.Doc), bytes: 10, resp: &wire.Response{Sent: begin.Add(time.Duration(i) * time.Second)}}
		e.watch(a, l, at(page))
		require.True(t, e.keep(a))
	}
	require.NotNil(t, e.take(l, at("2")))
	require.Nil(t, e.take(l, at("2")), "each answer is used once")
	require.Nil(t, e.take(l, at("3")), "the pass has sent a request of its own")
	require.Zero(t, e.c.keptBytes.Load())
}

// A pass does not take an answer that is older than a minute, even if the answer was younger when the pass began.
func TestEarlyAnswersAge(t *testing.T) {
	s := list("x.things", "id")
	e := (&Client{maxBytes: 64 << 20}).newTestEarly()
	l := &listClient{s: s}
	at := paging.Position{Kind: paging.KindPage, Param: "page", At: "1"}
	a := &answer{d: new(jsondoc.Doc), bytes: 10, resp: &wire.Response{Sent: time.Now().Add(-61 * time.Second)}}
	e.watch(a, l, at)
	require.True(t, e.keep(a))
	require.Nil(t, e.take(l, at))
	require.Zero(t, e.c.keptBytes.Load())
}

func (c *Client) newTestEarly() *earlyAnswers {
	c.early, c.docs.New = map[string]*earlyAnswers{}, func() any { return new(jsondoc.Doc) }
	return c.newEarly("x.things", true)
}

// A server may accept each token only once. A pass that uses the answers to probes does not send the tokens of these
// probes again.
func TestTokensThatAreAcceptedOnce(t *testing.T) {
	issued, next := map[string]int{}, 0
	s := own("x.things")
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		at := 0
		if token := r.URL.Query().Get("scroll_ref"); token != "" {
			from, ok := issued[token]
			if !ok {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			delete(issued, token)
			at = from
		}
		if at+7 >= 60 {
			fmt.Fprintf(w, `{"data":%s,"extras":{}}`, rows(at, at+7, 60))
			return
		}
		next++
		issued[fmt.Sprint("t", next)] = at + 7
		fmt.Fprintf(w, `{"data":%s,"extras":{"scroll_ref":"t%d"}}`, rows(at, at+7, 60), next)
	}, s)
	c, err := f.Negotiate(t.Context(), s)
	require.NoError(t, err)
	for range 2 {
		r, err := read(f.Client, c.Apply(s), "")
		require.NoError(t, err)
		require.Equal(t, wanted(60), r.ids())
		require.Equal(t, RuleNoNext, r.end.Rule)
	}
}
