package wire

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

type platform struct {
	mu        sync.Mutex
	shape     string // format of an answer with a token; %s is the token
	valid     string
	logins    int
	refreshes int
	bearers   []string
	refuse    http.HandlerFunc // answers refreshes, if set
}

func (p *platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(10 * time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch r.URL.Path {
	case "/api/login":
		body, _ := io.ReadAll(r.Body)
		if string(body) != `{"email":"demo@example.test","password":"p4ssword"}` {
			jsonText(401, `{"message":"These credentials do not match our records."}`)(w, r)
			return
		}
		p.logins++
		p.valid = fmt.Sprintf("token-login-%d", p.logins)
		jsonText(200, fmt.Sprintf(p.shape, p.valid))(w, r)
	case "/api/refresh":
		p.refreshes++
		switch {
		case p.refuse != nil:
			p.refuse(w, r)
		case bearer == "" || bearer == p.valid || strings.HasPrefix(bearer, "token-"):
			p.valid = fmt.Sprintf("token-refresh-%d", p.refreshes)
			jsonText(200, fmt.Sprintf(p.shape, p.valid))(w, r)
		default:
			jsonText(401, `{"message":"Unauthenticated."}`)(w, r)
		}
	default:
		p.bearers = append(p.bearers, bearer)
		if bearer != p.valid {
			jsonText(401, `{"message":"Unauthenticated."}`)(w, r)
			return
		}
		good(w, r)
	}
}

const newLogin = `{"success":true,"message":"ok","data":{"token":"%s","type":"bearer"}}`

func login(t *testing.T, password Secret) func(*Options) {
	return loginAt(entryIn(t, t.TempDir()), password)
}

func loginAt(entry *state.Entry, password Secret) func(*Options) {
	return func(o *Options) { o.Credential = NewLogin("demo@example.test", password, entry) }
}

func entryIn(t *testing.T, dir string) *state.Entry {
	t.Helper()
	return state.NewVault(filepath.Join(dir, "state"), nil).Entry("login")
}

func TestLoginShapes(t *testing.T) {
	for _, shape := range []string{
		newLogin,
		`{"status":"success","authorisation":{"token":"%s","type":"bearer"}}`,
		`{"authorization":{"access_token":"%s"}}`,
		`{"access_token":"%s","token_type":"bearer"}`,
		`{"data":"Signed in","token":"%s"}`,
	} {
		bubble(t, func(t *testing.T) {
			p := &platform{shape: shape}
			c := virtualClient(t, p, login(t, "p4ssword"))
			for range 3 {
				_, err := c.Read(t.Context(), contacts)
				require.NoError(t, err)
			}
			require.Equal(t, 1, p.logins)
			require.Zero(t, p.refreshes)
			require.Equal(t, "[redacted] [redacted]", c.Redactor().Redact("token-login-1 p4ssword"))
		})
	}
}

func TestLoginRefreshesOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{shape: newLogin}
		c := virtualClient(t, p, login(t, "p4ssword"))
		_, err := c.Read(t.Context(), contacts)
		require.NoError(t, err)
		p.valid, p.bearers = "revoked", nil

		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				_, err := c.Read(t.Context(), contacts)
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.Equal(t, 1, p.refreshes)
		require.Equal(t, 1, p.logins)
		again := 0
		for _, b := range p.bearers {
			if b == "token-login-1" {
				again++
			}
		}
		require.Len(t, p.bearers, 16+again, "one more request for each 401")
	})
}

func TestLoginRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{shape: newLogin}
		c := virtualClient(t, p, login(t, "wrong-password"))
		for range 3 {
			_, err := c.Read(t.Context(), contacts)
			e := faultOf(t, err, Auth)
			require.ErrorIs(t, e, ErrNotRenewable)
			require.EqualError(t, err, "read /v2/contacts: sign in: read /api/login: 401 unauthorized: These credentials do not match our records.")
		}
		require.EqualValues(t, 1, c.Governor().Stats().Sent)
	})
}

func TestLoginRefreshRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{shape: newLogin, refuse: jsonText(401, `{"message":"Unauthenticated."}`)}
		c := virtualClient(t, p, login(t, "p4ssword"))
		_, err := c.Read(t.Context(), contacts)
		require.NoError(t, err)
		p.valid = "revoked"
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				_, err := c.Read(t.Context(), contacts)
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.Equal(t, 2, p.logins)
		require.Equal(t, 1, p.refreshes)
	})
	bubble(t, func(t *testing.T) {
		p := &platform{shape: newLogin, refuse: jsonText(401, `{"message":"Unauthenticated."}`)}
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.ServeHTTP(w, r)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.valid = "ended"
		})
		c := virtualClient(t, h, login(t, "p4ssword"))
		for range 5 {
			_, err := c.Read(t.Context(), contacts)
			faultOf(t, err, Auth)
		}
		require.LessOrEqual(t, p.logins, maxSignIns)
	})
}

func TestLoginRefreshDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{shape: newLogin, refuse: jsonText(500, `{}`)}
		c := virtualClient(t, p, login(t, "p4ssword"))
		_, err := c.Read(t.Context(), contacts)
		require.NoError(t, err)
		p.valid = "revoked"
		_, err = c.Read(t.Context(), contacts)
		faultOf(t, err, Transient)
		require.LessOrEqual(t, p.refreshes, maxRenewals)

		p.refuse = nil
		_, err = c.Read(t.Context(), contacts)
		require.NoError(t, err)
		require.Equal(t, 1, p.logins)
	})
}

// A proxy in front of the platform answers a refresh with 404. That says nothing about the token, so the client does not
// sign in again. The platform's own 404 has a message. It means that the platform cannot refresh tokens, so the client
// signs in again.
func TestLoginRefreshMissing(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		logins int
	}{
		"a proxy":      {text(404, "text/html", `<html><title>404 Not Found</title></html>`), 1},
		"an empty 404": {text(404, "text/plain", ``), 1},
		"the platform": {jsonText(404, `{"message":"The route api/refresh could not be found."}`), 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := &platform{shape: newLogin, refuse: tt.answer}
				c := virtualClient(t, p, login(t, "p4ssword"))
				_, err := c.Read(t.Context(), contacts)
				require.NoError(t, err)
				p.valid = "revoked"
				_, err = c.Read(t.Context(), contacts)
				require.NotErrorIs(t, err, ErrSignIn)
				require.Equal(t, tt.logins > 1, err == nil, "%v", err)
				require.Equal(t, tt.logins, p.logins)

				p.refuse = nil
				_, err = c.Read(t.Context(), contacts)
				require.NoError(t, err)
				require.Equal(t, tt.logins, p.logins)
			})
		})
	}
}

func TestLoginRefreshOutlivesCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{shape: newLogin}
		c := virtualClient(t, p, login(t, "p4ssword"))
		_, err := c.Read(t.Context(), contacts)
		require.NoError(t, err)
		p.valid = "revoked"
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond) // ends during the refresh
		defer cancel()
		_, err = c.Read(ctx, contacts)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		_, err = c.Read(t.Context(), contacts)
		require.NoError(t, err)
		require.Equal(t, 1, p.refreshes)
	})
}

func TestBearerIsNotRenewed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{shape: newLogin, valid: "other"}
		c := virtualClient(t, p, nil)
		_, err := c.Read(t.Context(), contacts)
		e := faultOf(t, err, Auth)
		require.Equal(t, 1, e.Attempts)
		require.Zero(t, p.refreshes+p.logins)
	})
}

func TestLoginIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{shape: newLogin}
		entry := entryIn(t, t.TempDir())
		for range 3 {
			_, err := virtualClient(t, p, loginAt(entry, "p4ssword")).Read(t.Context(), contacts)
			require.NoError(t, err)
		}
		require.Equal(t, 1, p.logins)
	})
}

func TestLoginLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{shape: newLogin, refuse: jsonText(401, `{"message":"Unauthenticated."}`)}
		dir := t.TempDir()
		var at []time.Time
		for i := range 3 * 36 { // two hosts run in turn, every ten minutes, for 18 hours
			before := p.logins
			_, err := virtualClient(t, p, loginAt(entryIn(t, dir), "p4ssword")).Read(t.Context(), contacts)
			switch {
			case p.logins > before:
				require.NoError(t, err)
				at = append(at, time.Now())
			default:
				require.ErrorIs(t, err, ErrSignIn)
				require.ErrorContains(t, err, "so penstock does not sign in by itself before "+at[len(at)-maxSignIns].Add(signInWindow).UTC().Format(time.RFC3339)[:16])
			}
			require.LessOrEqual(t, p.logins-before, 1)
			require.True(t, err == nil || i >= maxSignIns, "run %d: %v", i, err)
			p.mu.Lock()
			p.valid = "ended"
			p.mu.Unlock()
			time.Sleep(10 * time.Minute)
		}
		for i := range at[maxSignIns:] {
			require.GreaterOrEqual(t, at[i+maxSignIns].Sub(at[i]), signInWindow-time.Second)
		}
		require.GreaterOrEqual(t, len(at), 3*18-3)
	})
}

func TestLoginAfterLostRenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{shape: newLogin}
		dir := t.TempDir()
		_, err := virtualClient(t, p, loginAt(entryIn(t, dir), "p4ssword")).Read(t.Context(), contacts)
		require.NoError(t, err)

		x := exchange{h: newHolder(entryIn(t, dir))}
		x.g, x.n, err = x.h.load()
		require.NoError(t, err)
		require.NoError(t, x.setNote(x.n.refreshing(x.h.stamp(), x.g)))
		p.valid, p.refuse = "token-lost", jsonText(401, `{"message":"Unauthenticated."}`)

		began := time.Now()
		_, err = virtualClient(t, p, loginAt(entryIn(t, dir), "p4ssword")).Read(t.Context(), contacts)
		require.NoError(t, err)
		require.Less(t, time.Since(began), 5*time.Second)
		require.Equal(t, 2, p.logins)

		// A valid token is not replaced.
		_, err = virtualClient(t, p, loginAt(entryIn(t, dir), "p4ssword")).Read(t.Context(), contacts)
		require.NoError(t, err)
		require.Equal(t, 2, p.logins)
	})
}

// Another program signs in to the same account every day, and tokens live for a day. Then penstock signs in once a
// day, and no run fails.
func TestLoginDaily(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{shape: newLogin, refuse: jsonText(401, `{"message":"Token has expired"}`)}
		entry := entryIn(t, t.TempDir())
		for day := range 10 {
			_, err := virtualClient(t, p, loginAt(entry, "p4ssword")).Read(t.Context(), contacts)
			require.NoError(t, err, "day %d", day)
			p.valid = "ended"
			time.Sleep(24*time.Hour + time.Minute)
		}
		require.Equal(t, 10, p.logins)
	})
}

func TestLoginRemembersRefusal(t *testing.T) {
	for password, tt := range map[Secret]struct {
		answer http.HandlerFunc
		most   int
	}{
		"wrong-password": {nil, 4},                                         // at 0, 1, 3 and 7 hours
		"p4ssword":       {jsonText(500, `{"message":"Server Error"}`), 9}, // at 0, 1, 3, 7 … minutes
	} {
		bubble(t, func(t *testing.T) {
			p := &platform{shape: newLogin}
			attempts := 0
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == loginPathAPI {
					if attempts++; tt.answer != nil {
						tt.answer(w, r)
						return
					}
				}
				p.ServeHTTP(w, r)
			})
			entry := entryIn(t, t.TempDir())
			for range 8 * 12 {
				_, err := virtualClient(t, h, loginAt(entry, password)).Read(t.Context(), contacts)
				require.ErrorIs(t, err, ErrSignIn)
				require.NotContains(t, err.Error(), "wrong-password")
				time.Sleep(5 * time.Minute)
			}
			require.LessOrEqual(t, attempts, tt.most)
			require.GreaterOrEqual(t, attempts, 3)
		})
	}
}

func TestLoginUnreached(t *testing.T) {
	entry := entryIn(t, t.TempDir())
	c := client(t, "http://127.0.0.1:1", func(o *Options) {
		loginAt(entry, "p4ssword")(o)
		o.MaxAttempts = 1
	})
	_, err := c.Read(t.Context(), contacts)
	faultOf(t, err, Transient)
	_, n, err := newHolder(entry).load()
	require.NoError(t, err)
	require.Equal(t, note{Version: storedVersion}, n)
}

func TestModuleOffIsNotADeadToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{shape: newLogin}
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/leads" {
				jsonText(401, `{"status":"error","message":"Your Add-on Is Not Activated!"}`)(w, r)
				return
			}
			p.ServeHTTP(w, r)
		})
		c := virtualClient(t, h, login(t, "p4ssword"))
		for range 3 {
			_, err := c.Read(t.Context(), Request{Path: "/api/leads"})
			faultOf(t, err, NotEntitled)
			_, err = c.Read(t.Context(), contacts)
			require.NoError(t, err)
		}
		require.Equal(t, 1, p.logins)
		require.Zero(t, p.refreshes)
	})
}

func TestEndpointRefusesEveryToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{shape: newLogin}
		averse := true
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if averse && r.URL.Path == "/api/leads" {
				jsonText(401, `{"message":"Computer says no."}`)(w, r)
				return
			}
			p.ServeHTTP(w, r)
		})
		c := virtualClient(t, h, login(t, "p4ssword"))
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 10 {
					_, err := c.Read(t.Context(), Request{Path: "/api/leads"})
					faultOf(t, err, Auth)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, p.refreshes)
		_, err := c.Read(t.Context(), contacts)
		require.NoError(t, err, "other endpoints still work")

		averse = false
		_, err = c.Read(t.Context(), Request{Path: "/api/leads"})
		require.NoError(t, err)
		p.valid = "expired" // now the 401 is about the token
		_, err = c.Read(t.Context(), Request{Path: "/api/leads"})
		require.NoError(t, err)
		require.Equal(t, 2, p.refreshes)
	})
}

func TestRenewalEndsSoonAfterItsCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{shape: newLogin}
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == refreshPathAPI {
				time.Sleep(50 * time.Second)
			}
			p.ServeHTTP(w, r)
		})
		c := virtualClient(t, h, login(t, "p4ssword"))
		_, err := c.Read(t.Context(), contacts)
		require.NoError(t, err)
		p.valid = "expired"
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err = c.Read(ctx, contacts)
		require.Error(t, err)
		require.LessOrEqual(t, time.Since(start), 7*time.Second)
		time.Sleep(time.Minute)
	})
}
