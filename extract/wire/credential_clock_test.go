package wire

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

type offsetStore struct {
	dir string
	by  time.Duration
}

func (p offsetStore) Check() error        { return nil }
func (p offsetStore) Where(string) string { return p.dir }
func (p offsetStore) Now() time.Time      { return time.Now().Round(0).Add(p.by) }
func (p offsetStore) path(name string, what state.Part) string {
	return filepath.Join(p.dir, name+"."+string(what))
}

func (p offsetStore) Lock(ctx context.Context, name string, wait time.Duration) (state.Lease, error) {
	l, err := state.Acquire(ctx, p.path(name, "lock"), wait)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (p offsetStore) Read(name string, what state.Part) ([]byte, error) {
	text, err := os.ReadFile(p.path(name, what))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

func (p offsetStore) Write(name string, what state.Part, text []byte, _ func(string)) error {
	return os.WriteFile(p.path(name, what), text, 0o600)
}

// A process does not renew a valid token, even if its own clock is wrong by hours. Other processes can rely on the
// times that it stores.
func TestTokensByTheSharedClock(t *testing.T) {
	for _, by := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		r := newRealm()
		base := r.serve(t)
		place := offsetStore{t.TempDir(), by}
		open := func() *OAuth {
			o := keeper(t, "oauth", base, place.dir, nil).(*OAuth)
			o.hold = newHolder(state.NewVaultIn(place).Entry("oauth"), "client-secret")
			return o
		}
		first := open()
		signedIn(t, first, base)
		st, err := first.State()
		require.NoError(t, err)
		require.WithinRange(t, st.Expires, place.Now().Add(time.Hour-time.Minute), place.Now().Add(time.Hour))
		require.WithinRange(t, st.SignedIn, place.Now().Add(-time.Minute), place.Now())
		read := func() {
			resp, err := clientWith(t, open(), base).Read(t.Context(), contacts)
			require.NoError(t, err)
			require.Equal(t, 1, resp.Attempts, "no 401 occurred")
		}
		for range 3 {
			read()
		}
		require.Equal(t, 1, r.refreshes, "the token was renewed, although only the code was to be exchanged")

		// A token that has expired by the shared clock is renewed once.
		x := exchange{h: first.hold}
		x.g, x.n, err = first.hold.load()
		require.NoError(t, err)
		x.g.renewed, x.g.expires = place.Now().Add(-time.Hour), place.Now().Add(-time.Second)
		require.NoError(t, x.keep(x.g))
		for range 3 {
			read()
		}
		require.Equal(t, 2, r.refreshes)
	}
}

func TestSignInsByTheSharedClock(t *testing.T) {
	for _, by := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		entry := state.NewVaultIn(offsetStore{t.TempDir(), by}).Entry("login")
		x := exchange{h: newHolder(entry)}
		n := x.n
		for range maxSignIns {
			require.True(t, n.maySignIn(x.h.stamp()))
			n = n.signingIn(x.h.stamp())
		}
		require.False(t, n.maySignIn(x.h.stamp()))
		require.WithinRange(t, n.nextSignIn(x.h.stamp()), entry.Now().Add(59*time.Minute), entry.Now().Add(signInWindow))
		require.True(t, n.maySignIn(entry.Now().Add(signInWindow)))
		require.True(t, n.maySignIn(entry.Now().Add(-7*time.Hour)))
		n = n.failedSignIn(x.h.stamp().Add(72*time.Hour), refusedSignIn)
		require.True(t, n.maySignIn(entry.Now().Add(signInWindow)))
	}
}
