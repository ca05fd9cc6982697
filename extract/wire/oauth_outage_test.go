package wire

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

func TestTokenEndpointIsWaitedFor(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"429":                    jsonText(429, `{}`, "Retry-After", "1"),
		"502":                    text(502, "text/html", `<html>bad gateway`),
		"503":                    jsonText(503, `{}`, "Retry-After", "1"),
		"a page with status 200": text(200, "text/html", `<html><title>Maintenance</title>`),
		"an empty answer":        jsonText(200, ``),
		"the server's fault":     jsonText(400, `{"error":"temporarily_unavailable"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRealm()
			base := r.serve(t)
			k := keeper(t, "oauth", base, t.TempDir(), nil)
			signedIn(t, k, base)
			r.expire()
			r.respond(answer)
			_, before := r.counts()
			time.AfterFunc(300*time.Millisecond, func() { r.respond(nil) })
			start := time.Now()
			_, err := clientWith(t, k, base).Read(t.Context(), contacts)
			require.NoError(t, err)
			require.GreaterOrEqual(t, time.Since(start), 900*time.Millisecond)
			_, after := r.counts()
			require.Equal(t, 2, after-before, "one failed, one returned the token")
			st, err := k.State()
			require.NoError(t, err)
			require.Zero(t, st.Failing, "the outage is over")
		})
	}
}

func TestTokenEndpointStaysDown(t *testing.T) {
	r := newRealm()
	srv := httptest.NewServer(r)
	base, dir := srv.URL, t.TempDir()
	k := keeper(t, "oauth", base, dir, nil)
	signedIn(t, k, base)
	before := kept(t, k)
	r.expire()
	r.respond(jsonText(503, `{}`, "Retry-After", "60"))
	_, asked := r.counts()
	for range 3 {
		for _, k := range []Keeper{k, keeper(t, "oauth", base, dir, nil)} {
			_, err := clientWith(t, k, base).Read(t.Context(), contacts)
			e := faultOf(t, err, Throttled)
			require.ErrorIs(t, e, ErrOutage)
			require.WithinDuration(t, time.Now().Add(time.Minute), e.NotBefore, 45*time.Second)
			require.Contains(t, e.Error(), "request a token from /oauth/token: 503")
		}
	}
	_, after := r.counts()
	require.Equal(t, 1, after-asked, "requests for a token")
	require.Equal(t, before, kept(t, k))
	st, err := k.State()
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), st.Failing, time.Minute)
	require.Empty(t, st.Trouble, "the grant still works")
	srv.Close()
}

func TestTokenEndpointRefusesConnections(t *testing.T) {
	r := newRealm()
	base := r.serve(t)
	dir := t.TempDir()
	signedIn(t, keeper(t, "oauth", base, dir, nil), base)
	r.expire()
	closed := httptest.NewServer(nil)
	closed.Close()
	o := keeper(t, "oauth", base, dir, nil).(*OAuth)
	o.opts.TokenURL = closed.URL + "/oauth/token"
	_, err := clientWith(t, o, base).Read(t.Context(), contacts)
	e := faultOf(t, err, Throttled)
	require.ErrorIs(t, e, ErrOutage)
	time.Sleep(time.Until(e.NotBefore))
	_, err = clientWith(t, keeper(t, "oauth", base, dir, nil), base).Read(t.Context(), contacts)
	require.NoError(t, err, "the token endpoint is back")
}

// A renewal waits for the governor or for the issuer's metadata. If the process is killed during the wait, the note
// records no lost answer.
func TestWaitSendsNothing(t *testing.T) {
	open := func(t *testing.T, o *OAuth) bool {
		_, n, err := o.hold.load()
		require.NoError(t, err)
		return n.Call != nil
	}
	t.Run("the limit of requests", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			c := client(t, "http://127.0.0.1:1", nil)
			closeGate(t, c, 10*time.Second)
			o := keeper(t, "oauth", "http://127.0.0.1:1", t.TempDir(), nil).(*OAuth)
			g := newGrant(o.hold.stamp(), "access-0000", "refresh-0000")
			_, err := o.hold.locked(t.Context(), func(_ context.Context, x *exchange) error { return x.keep(g) })
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan error)
			go func() {
				_, err := o.Renew(ctx, Session{c}, "access-0000")
				over <- err
			}()
			time.Sleep(5 * time.Second)
			require.False(t, open(t, o), "it waits")
			cancel()
			require.Error(t, <-over)
			o.hold.sem <- struct{}{} // waits until the exchange has ended
		})
	})
	t.Run("the metadata", func(t *testing.T) {
		i := newIssuer(t)
		dir := t.TempDir()
		entry := func(o *OAuthOptions) { o.Entry = state.NewVault(dir, nil).Entry("oauth") }
		o := i.grant(t, entry)
		require.NoError(t, o.signIn(t.Context(), Session{}, SignInMethod{Show: browser(t, nil)}))
		o = i.grant(t, entry)
		asked := false
		i.note = func() { asked = true; require.False(t, open(t, o)) }
		g, err := o.hold.current()
		require.NoError(t, err)
		_, err = o.Renew(t.Context(), Session{}, g.access)
		require.ErrorIs(t, err, ErrOutage)
		require.True(t, asked)
		_, n, err := o.hold.load()
		require.NoError(t, err)
		require.NotNil(t, n.Outage, "other processes wait too")
		require.WithinDuration(t, time.Now().Add(time.Hour), n.Outage.Again, 10*time.Second)
		require.Nil(t, n.Call)
	})
}

// The answer holds the only copy of a token. So penstock stores the token, even if the stream that requested it has
// ended.
func TestLateAnswerIsTaken(t *testing.T) {
	for name, gone := range map[string]time.Duration{"the stream waits": time.Hour, "the stream has gone": 170 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRealm()
				c := virtualClient(t, r, func(o *Options) { o.Credential = None() })
				o := keeper(t, "oauth", "http://127.0.0.1:80", t.TempDir(), nil).(*OAuth)
				u, _ := url.Parse("http://127.0.0.1:80/oauth/token")
				o.client(u, true)
				for _, transport := range o.clients {
					transport.DialContext = c.transport.DialContext
				}
				c.cred = o
				g := newGrant(o.hold.stamp(), "access-0000", "refresh-0000")
				r.refresh, r.access = "refresh-0000", "expired"
				_, err := o.hold.locked(t.Context(), func(_ context.Context, x *exchange) error { return x.keep(g) })
				require.NoError(t, err)
				r.watch(func(moment string) {
					if moment == "done" {
						time.Sleep(3 * time.Minute)
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), gone)
				defer cancel()
				_, err = c.Read(ctx, contacts)
				require.Equal(t, gone < 3*time.Minute, err != nil, "%v", err)
				_, err = c.Read(t.Context(), contacts)
				require.NoError(t, err)
				require.Equal(t, 1, r.answered["refresh-0000"])
				require.Equal(t, 1, r.refreshes)
			})
		})
	}
}

// The answer to a renewal is cut off, and the refresh token may be used up. penstock sends the refresh token again only
// if that is safe.
func TestSpentRefreshToken(t *testing.T) {
	for name, tt := range map[string]struct {
		reuse   reuse
		renewed int
		grace   time.Duration
		works   bool
	}{
		"a server that detects reuse":               {detected, 1, 0, false},
		"detected reuse, at the first renewal":      {detected, 0, 0, false},
		"a grace period that is not configured":     {graced, 1, 0, false},
		"a grace period":                            {graced, 1, time.Minute, true},
		"a grace period that is over":               {graced, 1, time.Millisecond, false},
		"a server that was seen not to rotate":      {unrotated, 1, 0, true},
		"a server that is configured not to rotate": {unrotated, 0, GraceAlways, true},
		"an unknown server":                         {unrotated, 0, 0, false},
		"detected reuse, and a wrong grace period":  {detected, 1, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRealm()
			r.reuse = tt.reuse
			base, dir := r.serve(t), t.TempDir()
			open := func() *OAuth {
				o := keeper(t, "oauth", base, dir, nil).(*OAuth)
				o.opts.Grace = tt.grace
				return o
			}
			o := open()
			signedIn(t, o, base)
			for range tt.renewed {
				r.expire()
				_, err := clientWith(t, o, base).Read(t.Context(), contacts)
				require.NoError(t, err)
			}
			g, err := o.hold.current()
			require.NoError(t, err)
			before := r.answered[g.refresh.Reveal()]
			r.expire()
			var cut atomic.Bool
			r.watch(func(moment string) {
				if moment == "done" && !cut.Swap(true) {
					panic(http.ErrAbortHandler)
				}
			})
			_, err = clientWith(t, o, base).Read(t.Context(), contacts)
			if !tt.works && tt.reuse == detected && tt.grace == 0 || tt.renewed == 0 && !tt.works {
				require.ErrorIs(t, err, ErrSignIn)
				require.ErrorContains(t, err, "was lost")
				require.ErrorContains(t, err, "refresh_grace")
			}
			for range 2 {
				_, again := clientWith(t, open(), base).Read(t.Context(), contacts)
				require.Equal(t, tt.works, again == nil, "%v", again)
			}
			require.Equal(t, tt.works, err == nil, "%v", err)
			presented := r.answered[g.refresh.Reveal()] - before
			switch {
			case tt.grace == time.Minute && tt.reuse == detected:
				require.Equal(t, 2, presented, "as configured")
			case tt.works:
				require.GreaterOrEqual(t, presented, 2)
			default:
				require.Equal(t, 1, presented, "a spent refresh token is not sent again")
			}
			st, err := open().State()
			require.NoError(t, err)
			require.Equal(t, tt.works, st.Trouble == "", st.Trouble)
			require.Equal(t, tt.works, st.Failing.IsZero())
			if !tt.works {
				signedIn(t, o, base)
				_, err = clientWith(t, open(), base).Read(t.Context(), contacts)
				require.NoError(t, err, "after another sign-in")
			}
		})
	}
}

type shifted struct {
	offsetStore
	by *atomic.Int64
}

func (s shifted) Now() time.Time { return time.Now().Round(0).Add(time.Duration(s.by.Load())) }

// A short-lived token is renewed when most of its time has passed, not for each burst of requests.
func TestGrantRenewsInTime(t *testing.T) {
	for _, tt := range []struct {
		life   int
		after  time.Duration
		renews bool
	}{
		{3600, 3500 * time.Second, false},
		{3600, 3575 * time.Second, true},
		{30, 10 * time.Second, false},
		{30, 25 * time.Second, true},
		{10, 5 * time.Second, false},
		{10, 9 * time.Second, true},
		{5, 0, false},
	} {
		r := newRealm()
		base := r.serve(t)
		place := shifted{offsetStore{t.TempDir(), 0}, new(atomic.Int64)}
		o := keeper(t, "oauth", base, place.dir, nil).(*OAuth)
		o.hold = newHolder(state.NewVaultIn(place).Entry("oauth"), "client-secret")
		r.life = tt.life
		signedIn(t, o, base)
		r.life = 3600
		place.by.Store(int64(tt.after))
		c := clientWith(t, o, base)
		for range 8 {
			resp, err := c.Read(t.Context(), contacts)
			require.NoError(t, err)
			require.Equal(t, 1, resp.Attempts, "no 401 occurred")
		}
		want := 1
		if tt.renews {
			want = 2
		}
		require.Equal(t, want, r.refreshes, "%+v", tt)
	}
}
