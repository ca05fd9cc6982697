package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRotating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept, fault, reads := Secret("old"), error(nil), 0
		c := Rotating("old", func() (Secret, error) { reads++; return kept, fault })
		renew := func(spent Secret) (Secret, error) { return c.Renew(t.Context(), Session{}, spent) }

		_, err := renew("old")
		require.Equal(t, ErrNotRenewable, err)
		_, err = renew("old")
		require.Equal(t, ErrNotRenewable, err)
		require.Equal(t, 1, reads, "the token was read a moment ago")

		kept = "new"
		time.Sleep(rereadEvery)
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				token, err := renew("old")
				require.NoError(t, err)
				require.Equal(t, Secret("new"), token)
			})
		}
		wait.Wait()
		require.Equal(t, 2, reads)
		token, err := c.Token(t.Context(), Session{})
		require.NoError(t, err)
		require.Equal(t, Secret("new"), token)
		require.Equal(t, []Secret{"old", "new"}, c.Secrets())

		time.Sleep(rereadEvery)
		fault = errors.New("vault is sealed")
		_, err = renew("new")
		require.ErrorIs(t, err, ErrNotRenewable)
		require.ErrorContains(t, err, "vault is sealed")
		require.Equal(t, Bearer("x"), Rotating("x", nil), "a token that cannot be read again never changes")
	})
}

// If the command hangs, requests that have the current token continue. A request that needs a new token waits until its
// context ends.
func TestRotatingSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := Rotating("old", func() (Secret, error) { <-release; return "new", nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := c.Renew(ctx, Session{}, "old")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		token, err := c.Token(t.Context(), Session{})
		require.NoError(t, err)
		require.Equal(t, Secret("old"), token)
		require.Equal(t, []Secret{"old"}, c.Secrets())

		time.AfterFunc(time.Minute, func() { close(release) })
		token, err = c.Renew(t.Context(), Session{}, "old")
		require.NoError(t, err)
		require.Equal(t, Secret("new"), token)
	})
}

// A secret manager may print a new token each time. The secret manager is not run for every refused request, and the
// tokens use limited memory.
func TestRotatingAlwaysNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		c := Rotating("token 0", func() (Secret, error) { reads++; return Secret(fmt.Sprint("token ", reads)), nil })
		spent, err := c.Renew(t.Context(), Session{}, "token 0")
		require.NoError(t, err)
		for range 100 {
			_, err = c.Renew(t.Context(), Session{}, spent)
			require.Equal(t, ErrNotRenewable, err)
		}
		require.Equal(t, 1, reads)
		for range 2 * mostTokens {
			time.Sleep(rereadEvery)
			spent, err = c.Renew(t.Context(), Session{}, spent)
			require.NoError(t, err)
		}
		require.Len(t, c.Secrets(), mostTokens)
		require.Equal(t, spent, c.Secrets()[mostTokens-1])
		require.Equal(t, "[redacted]", fmt.Sprint(c))
	})
}
