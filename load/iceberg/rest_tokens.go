//go:build iceberg

package iceberg

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// tokens adds credentials to the requests to a catalog. It renews an OAuth2 token before the token expires, or when
// the catalog refuses the token. Its methods accept nil, for a catalog without credentials.
type tokens struct {
	fresh func() oauth2.TokenSource // nil: the token cannot be renewed

	mu     sync.Mutex
	source oauth2.TokenSource
}

func newTokens(client *http.Client, c *clientcredentials.Config) *tokens {
	fresh := func() oauth2.TokenSource {
		return c.TokenSource(context.WithValue(context.Background(), oauth2.HTTPClient, client))
	}
	return &tokens{fresh: fresh, source: fresh()}
}

func (t *tokens) sign(r *http.Request) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	source := t.source
	t.mu.Unlock()
	token, err := source.Token()
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok { // its text contains the server's answer. Invariant 5
		text := fmt.Sprintf("get a token: the server answered %s %s", refused.Response.Status, refused.ErrorCode)
		if code := refused.Response.StatusCode; code >= 500 || code == http.StatusTooManyRequests {
			return errors.New(text)
		}
		return &tokenError{text + t.hint()}
	}
	if err != nil {
		return fmt.Errorf("get a token: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+token.AccessToken)
	return nil
}

// tokenError reports that the server refuses to give out a token. It is of no use to try again.
type tokenError struct{ text string }

// Error has the status and the error code of the server.
func (e *tokenError) Error() string { return e.text }

// hint returns what to do if a token is refused.
func (t *tokens) hint() string {
	switch {
	case t == nil:
		// Cause: the catalog requires a token
		return "\nhint: set token or credential"
	case t.fresh == nil:
		// Cause: the catalog refuses the token
		return "\nhint: check token: it may have expired; with credential, penstock renews tokens"
	default:
		// Cause: the catalog refuses the token that it has issued, or the token endpoint refuses the credential
		return "\nhint: check credential, token_url and scope"
	}
}

// renew discards the token, so that the next request gets a new one. It returns false if the token cannot be renewed.
func (t *tokens) renew() bool {
	if t == nil || t.fresh == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.source = t.fresh()
	return true
}
