package access

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/serve"
)

const (
	owner   = "owner-token-0123456789"
	analyst = "analyst-token-0123456789"
	scraper = "scraper-token-0123456789"
)

type world struct {
	*Guard
	now     time.Time
	refused map[string]int
	log     bytes.Buffer
}

func newWorld() *world {
	w := &world{now: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC), refused: map[string]int{}}
	w.Guard = New(Options{
		Log: slog.New(slog.NewTextHandler(&w.log, nil)), Now: func() time.Time { return w.now },
		Observe: func(n serve.AccessRefused) { w.refused[n.Why]++ },
	})
	w.Define([]Token{{"owner", owner, Operate}, {"analyst", analyst, Read}, {"prometheus", scraper, Metrics}})
	return w
}

func from(address string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/status", nil)
	r.RemoteAddr = address
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func bearer(address, token string) *http.Request {
	return from(address, "Authorization", "Bearer "+token)
}

// Of 10,000 wrong tokens from 100 addresses within a minute, fewer than 100 are compared. All are counted.
func TestGuessesAreLimited(t *testing.T) {
	w := newWorld()
	for i := range 10_000 {
		w.now = w.now.Add(6 * time.Millisecond)
		_, err := w.Check(from(fmt.Sprintf("203.0.113.%d:4000", i%100)), fmt.Sprintf("guess %d", i))
		require.Error(t, err)
	}
	require.Less(t, w.refused[ErrWrong.Error()], 100)
	require.Equal(t, 10_000, w.refused[ErrWrong.Error()]+w.refused[ErrLimited.Error()])
	require.Less(t, strings.Count(w.log.String(), "\n"), 110)
	require.NotContains(t, w.log.String(), "guess ")
}

// An attacker who is limited must not learn that a guess is correct.
func TestRightTokenIsLimitedToo(t *testing.T) {
	w := newWorld()
	for range clientBurst {
		_, err := w.Check(from("203.0.113.7:1"), "wrong")
		require.ErrorIs(t, err, ErrWrong)
	}
	_, err := w.Check(from("203.0.113.7:1"), owner)
	require.ErrorIs(t, err, ErrLimited)
	_, err = w.Check(from("203.0.113.8:1"), owner)
	require.NoError(t, err, "another address")
	w.now = w.now.Add(time.Minute)
	_, err = w.Check(from("203.0.113.7:1"), owner)
	require.NoError(t, err, "after a minute the address may try tokens again")
}

// This machine, and addresses that have sent a correct token in the last day, have access even if the limit that
// all other addresses share is used up.
func TestStrangersDoNotKeepTheOwnerOut(t *testing.T) {
	w := newWorld()
	_, err := w.Check(from("198.51.100.1:1"), scraper)
	require.NoError(t, err)
	for i := range 1000 {
		_, _ = w.Check(from(fmt.Sprintf("203.0.%d.%d:1", i/250, i%250)), "wrong")
	}
	_, err = w.Check(from("192.0.2.1:1"), owner)
	require.ErrorIs(t, err, ErrLimited, "an address that never sent a correct token")
	for range 1000 {
		_, err = w.Check(from("198.51.100.1:1"), scraper)
		require.NoError(t, err, "correct tokens do not count against the limits")
	}
	for _, here := range []string{"127.0.0.1:5", "[::1]:5", "@", ""} {
		_, err = w.Check(from(here), owner)
		require.NoError(t, err, "%q", here)
	}
	_, err = w.Check(from("127.0.0.1:5", "X-Forwarded-For", "192.0.2.1"), owner)
	require.ErrorIs(t, err, ErrLimited, "a proxy on this machine")
	w.now = w.now.Add(knownFor + time.Minute)
	for i := range 1000 {
		_, _ = w.Check(from(fmt.Sprintf("203.0.%d.%d:1", i/250, i%250)), "wrong")
	}
	_, err = w.Check(from("198.51.100.1:1"), scraper)
	require.ErrorIs(t, err, ErrLimited, "not seen for a day")
}

func TestClients(t *testing.T) {
	same := func(a, b *http.Request) bool { return clientOf(a) == clientOf(b) }
	require.True(t, same(from("127.0.0.1:1"), from("127.9.9.9:2")), "all addresses of this machine are one client")
	require.True(t, same(from("127.0.0.1:1"), from("[::1]:2")))
	require.True(t, same(from("[2001:db8::1]:1"), from("[2001:db8::ffff]:1")), "a /64 network of IPv6 is one client")
	require.False(t, same(from("[2001:db8::1]:1"), from("[2001:db8:0:1::1]:1")))
	require.False(t, same(from("127.0.0.1:1"), from("127.0.0.1:1", "X-Forwarded-For", "127.0.0.1")), "behind a proxy")
	const field = "X-Forwarded-For"
	require.False(t, same(from("10.0.0.2:1", field, "192.0.2.1"), from("10.0.0.2:1", field, "192.0.2.2")), "two senders behind one proxy are two clients")
	require.True(t, same(from("10.0.0.2:1", field, "1.1.1.1, 192.0.2.1"), from("10.0.0.2:1", field, "2.2.2.2, 192.0.2.1")), "only the nearest proxy is believed")
	require.True(t, same(from("203.0.113.1:1", field, "192.0.2.1"), from("203.0.113.1:1", field, "192.0.2.2")), "the header of a sender on another network is ignored")
	require.True(t, same(from("203.0.113.1:1", field, "192.0.2.1"), from("203.0.113.1:1")), "a sender does not become a second client by adding the header")
}

func TestMemoryOfGuesses(t *testing.T) {
	var l limiter
	now := time.Unix(1e9, 0)
	for i := range 20_000 {
		now = now.Add(allEvery)
		c := clientOf(from(fmt.Sprintf("%d.%d.%d.1:1", 11+i>>16, i>>8&255, i&255)))
		l.try(c, now, func() bool { return i%2 == 0 })
	}
	require.LessOrEqual(t, len(l.clients), maxClients)
	require.LessOrEqual(t, len(l.known), maxKnown)
}

func TestRoles(t *testing.T) {
	w := newWorld()
	for token, may := range map[string]map[Role]error{
		owner:   {Metrics: nil, Read: nil, Operate: nil},
		analyst: {Metrics: nil, Read: nil, Operate: ErrRole},
		scraper: {Metrics: nil, Read: ErrRole, Operate: ErrRole},
		"wrong": {Metrics: ErrWrong, Read: ErrWrong, Operate: ErrWrong},
	} {
		for want, err := range may {
			_, got := w.Program(bearer("127.0.0.1:1", token), want)
			require.ErrorIs(t, got, err, "%s %s", token, want)
		}
	}
	id, err := w.Check(from("127.0.0.1:1"), analyst)
	require.NoError(t, err)
	require.Equal(t, "analyst", id.Name)
	_, err = w.Program(from("127.0.0.1:1"), Metrics)
	require.ErrorIs(t, err, ErrMissing)

	w.Define([]Token{{"owner", owner, Operate}})
	_, held := w.Holds(id)
	require.False(t, held, "a removed token")
	w.Define([]Token{{"analyst", analyst, Operate}})
	now, held := w.Holds(id)
	require.True(t, held)
	require.Equal(t, Operate, now.Role)
	require.False(t, Role("").Includes(Metrics))
	require.False(t, Role("root").Includes(""))
}

func TestOpen(t *testing.T) {
	g := New(Options{})
	id, err := g.Program(from("127.0.0.1:1"), Operate)
	require.NoError(t, err)
	require.Equal(t, "local", id.Name)
	for _, field := range forwarding {
		_, err = g.Program(from("127.0.0.1:1", field, "x"), Metrics)
		require.ErrorIs(t, err, ErrProxied, field)
		require.ErrorContains(t, err, "auth: {token:", "the error says how to allow requests through a proxy")
	}
}

func TestRequire(t *testing.T) {
	w := newWorld()
	h := w.Require(Metrics, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for authorization, want := range map[string]int{
		"": 401, "Bearer wrong": 401, scraper: 401, "Basic " + scraper: 401, "bearer " + scraper: 200, "Bearer " + scraper: 200, "Bearer " + owner: 200,
	} {
		a := httptest.NewRecorder()
		h.ServeHTTP(a, from("127.0.0.1:1", "Authorization", authorization))
		require.Equal(t, want, a.Code, authorization)
		require.Equal(t, want == 401, a.Header().Get("WWW-Authenticate") != "", authorization)
	}
}

func TestEncrypted(t *testing.T) {
	require.False(t, Encrypted(from("127.0.0.1:1")))
	require.True(t, Encrypted(from("127.0.0.1:1", "X-Forwarded-Proto", "HTTPS, http")))
	require.False(t, Encrypted(from("127.0.0.1:1", "X-Forwarded-Proto", "http, https")))
	require.True(t, Encrypted(from("127.0.0.1:1", "Forwarded", `for=192.0.2.1;Proto="https", for=10.0.0.1;proto=http`)))
	require.False(t, Encrypted(from("127.0.0.1:1", "Forwarded", "for=192.0.2.1;proto=http")))
	r := from("127.0.0.1:1")
	r.TLS = &tls.ConnectionState{}
	require.True(t, Encrypted(r))
}

func TestFrom(t *testing.T) {
	require.Equal(t, "192.0.2.1", From(from("192.0.2.1:443")))
	require.Equal(t, "unix socket", From(from("@")))
	require.Equal(t, "10.0.0.2 for 192.0.2.1", From(from("10.0.0.2:1", "X-Forwarded-For", "evil\n, 192.0.2.1")))
	require.Equal(t, "10.0.0.2", From(from("10.0.0.2:1", "X-Forwarded-For", "<script>")))
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	w := newWorld()
	answer := func(g *Guard, want Role, r *http.Request) string {
		a := httptest.NewRecorder()
		g.Require(want, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(a, r)
		return a.Body.String()
	}
	require.Contains(t, answer(w.Guard, Operate, bearer("127.0.0.1:1", analyst)), "`role:` of the token in `serve: {auth: {tokens: […]}}`")
	require.Empty(t, answer(w.Guard, Operate, bearer("127.0.0.1:1", owner)), "control")
	for range 100 {
		answer(w.Guard, Read, bearer("203.0.113.1:1", "wrong"))
	}
	require.Contains(t, answer(w.Guard, Read, bearer("203.0.113.1:1", "wrong")), "try again in a minute; if this goes on, send requests from the machine of the daemon, or through an SSH tunnel")
	without := New(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now, Observe: func(serve.AccessRefused) {}})
	require.Contains(t, answer(without, Read, from("127.0.0.1:1", "X-Forwarded-For", "192.0.2.1")), "set `serve: {auth: {token: …}}`")
	require.Empty(t, answer(without, Read, from("127.0.0.1:1")), "control")
}
