package objects

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

type machineTokens struct {
	client        *http.Client
	url           string
	header, value string // a header that the server requires
}

// Token implements [oauth2.TokenSource].
func (m *machineTokens) Token() (*oauth2.Token, error) {
	r, err := http.NewRequest(http.MethodGet, m.url, nil) //nolint:noctx // a TokenSource has no context; the client has a timeout
	if err != nil {
		return nil, err
	}
	r.Header.Set(m.header, m.value)
	resp, err := (&http.Client{Transport: m.client.Transport, Timeout: machineWithin}).Do(r)
	if err != nil {
		return nil, fmt.Errorf("no key is configured, and the machine's own account gives no token: %w", withoutURL(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("no key is configured, and the machine's own account gives no token: %s", resp.Status)
	}
	var said struct {
		Token string          `json:"access_token"`
		Life  json.RawMessage `json:"expires_in"` // a number; from Azure, a string
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&said); err != nil {
		return nil, fmt.Errorf("request a token of the machine's account: %w", err)
	}
	life, err := strconv.ParseInt(strings.Trim(string(said.Life), `"`), 10, 64)
	if err != nil || said.Token == "" {
		return nil, fmt.Errorf("request a token of the machine's account: the answer has no token with a lifetime")
	}
	return &oauth2.Token{AccessToken: said.Token, TokenType: "Bearer", Expiry: time.Now().Add(time.Duration(life) * time.Second)}, nil
}

// machineWithin is the timeout of a request for a token. It is short, because outside of the cloud there is no
// answer.
const machineWithin = 10 * time.Second
