package parquet

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

// machine asks the cloud that this machine is of for a token of the machine's own
// account. It implements [oauth2.TokenSource].
type machine struct {
	client        *http.Client
	url           string
	header, value string // without which the cloud does not answer
}

// Token implements [oauth2.TokenSource].
func (m *machine) Token() (*oauth2.Token, error) {
	r, err := http.NewRequest(http.MethodGet, m.url, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set(m.header, m.value)
	resp, err := (&http.Client{Transport: m.client.Transport, Timeout: machineWithin}).Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask the machine who it is, as no key is given: %w", withoutURL(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask the machine who it is, as no key is given: %s", resp.Status)
	}
	var said struct {
		Token string          `json:"access_token"`
		Life  json.RawMessage `json:"expires_in"` // a number, of Azure a string
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&said); err != nil {
		return nil, fmt.Errorf("ask the machine who it is: %w", err)
	}
	life, err := strconv.ParseInt(strings.Trim(string(said.Life), `"`), 10, 64)
	if err != nil || said.Token == "" {
		return nil, fmt.Errorf("ask the machine who it is: no token with a life came")
	}
	return &oauth2.Token{AccessToken: said.Token, TokenType: "Bearer", Expiry: time.Now().Add(time.Duration(life) * time.Second)}, nil
}

// machineWithin is how soon a machine answers that is one of the cloud's.
const machineWithin = 10 * time.Second
