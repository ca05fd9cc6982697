package wire

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire/budget"
)

func TestTokenCallsCount(t *testing.T) {
	for _, kind := range keepers {
		t.Run(kind, func(t *testing.T) {
			r := newRealm()
			base := r.serve(t)
			c := client(t, base, func(o *Options) {
				o.Credential, o.Rate = keeper(t, kind, base, t.TempDir(), nil), budget.Rate{Limit: 100_000, Window: time.Hour}
			})
			require.NoError(t, c.SignIn(t.Context(), SignInMethod{Show: browser(t, nil)}))
			require.EqualValues(t, 1, c.Governor().Stats().Sent, "the sign-in")
			r.expire()
			_, err := c.Read(t.Context(), contacts)
			require.NoError(t, err)
			require.EqualValues(t, 4, c.Governor().Stats().Sent, "a 401, a refresh, the answer")
		})
	}
}

func TestTokenCallClosesGate(t *testing.T) {
	for _, kind := range keepers {
		t.Run(kind, func(t *testing.T) {
			r := newRealm()
			base := r.serve(t)
			k := keeper(t, kind, base, t.TempDir(), nil)
			signedIn(t, k, base)
			r.expire()
			r.respond(func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Retry-After", "7200")
				jsonText(429, `{}`)(w, req)
			})
			_, before := r.counts()
			c := clientWith(t, k, base)
			for range 2 {
				_, err := c.Read(t.Context(), contacts)
				require.WithinDuration(t, time.Now().Add(2*time.Hour), faultOf(t, err, Throttled).NotBefore, time.Minute)
			}
			_, after := r.counts()
			require.Equal(t, 1, after-before)
		})
	}
}

func TestTokenCallWithoutSlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := client(t, "http://127.0.0.1:1", nil)
		closeGate(t, c, 2*exchangeTime)
		ctx, cancel := context.WithTimeout(t.Context(), exchangeTime)
		defer cancel()
		err := Session{c}.permitted(ctx, "/oauth/token", func() error { return errors.New("was made") })
		require.Equal(t, notProcessed, outcomeOf(err), err)
		_, err = Session{c}.post(ctx, refreshPathAPI, "", nil)
		require.Equal(t, notProcessed, outcomeOf(err), err)
	})
}
