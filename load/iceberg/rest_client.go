//go:build iceberg

package iceberg

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/penstock-data/penstock/state/retry"
)

// restClient sends requests to a REST catalog. It is safe for concurrent use.
type restClient struct {
	http    *http.Client
	base    *url.URL
	prefix  []string // the parts with which most URL paths begin; the catalog states them in its configuration
	secrets []string // removed from all messages. Invariant 5
	tokens  *tokens  // nil: no credentials
	vended  bool     // ask for keys of the bucket in each answer
}

// delegated returns a client that asks the catalog for keys of the bucket. Only requests for keys use it, because the
// catalog makes new keys for each of them.
func (c *restClient) delegated() *restClient {
	out := *c
	out.vended = true
	return &out
}

const (
	restAnswer  = 256 << 20 // greatest length of an answer in bytes. Invariant 6
	restTimeout = 2 * time.Minute
	restMessage = 400 // greatest length of a catalog's message in bytes
)

// restRetry is for requests that change nothing.
var restRetry = retry.Policy{First: 200 * time.Millisecond, Longest: 5 * time.Second, Jitter: 0.5, Attempts: 6}

// statusError is an answer other than 2xx.
type statusError struct {
	status  int
	kind    string // type of the error, such as NoSuchTableException
	message string
}

// Error has the status and the message of the catalog, without secrets.
func (e *statusError) Error() string {
	return fmt.Sprintf("the catalog answered %d %s: %s", e.status, cmp.Or(e.kind, http.StatusText(e.status)), e.message)
}

func isStatus(err error, status int) bool {
	answered, ok := errors.AsType[*statusError](err)
	return ok && answered.status == status
}

func isREST(catalog string) bool {
	return strings.HasPrefix(catalog, "https://") || strings.HasPrefix(catalog, "http://")
}

func newRESTClient(o Options) (*restClient, error) {
	base, err := url.Parse(o.Catalog)
	if err != nil || base.Host == "" || base.User != nil || base.RawQuery != "" {
		return nil, errors.New("want catalog=https://host/path, without a user name and without a query") // the cause may contain a password. Invariant 5
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = lookups
	c := &restClient{base: base, http: &http.Client{
		Transport: t, Timeout: restTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // never send credentials to another host. Invariant 10
	}}
	if o.Token == "" && o.Credential == "" {
		return c, nil
	}
	at := base.JoinPath("v1/oauth/tokens")
	if o.TokenURL != "" {
		if at, err = url.Parse(o.TokenURL); err != nil || at.Host == "" {
			return nil, errors.New("want token_url=https://host/path")
		}
	}
	for _, u := range []*url.URL{base, at} {
		if u.Scheme != "https" && !loopback(u.Hostname()) {
			return nil, fmt.Errorf("credentials for %s would be sent without encryption: use https", u.Host)
		}
	}
	if o.Token != "" {
		c.secrets = []string{o.Token}
		c.tokens = &tokens{source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: o.Token})}
		return c, nil
	}
	id, secret, ok := strings.Cut(o.Credential, ":")
	if !ok {
		id, secret = "", o.Credential
	}
	c.secrets = []string{o.Credential, secret}
	c.tokens = newTokens(c.http, &clientcredentials.Config{
		ClientID: id, ClientSecret: secret, TokenURL: at.String(), Scopes: []string{cmp.Or(o.Scope, "catalog")}, AuthStyle: oauth2.AuthStyleInParams,
	})
	return c, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// get reads the answer to a request that changes nothing. It repeats the request if the catalog does not answer.
func (c *restClient) get(ctx context.Context, out any, path ...string) error {
	return c.repeat(ctx, http.MethodGet, nil, out, path...)
}

// repeat sends a request that changes nothing, and repeats it if the catalog does not answer.
func (c *restClient) repeat(ctx context.Context, method string, in, out any, path ...string) error {
	for tries := restRetry.Begin(); ; {
		err := c.do(ctx, method, in, out, path...)
		if err == nil || !lost(err) || !tries.Again(ctx) {
			return err
		}
	}
}

// lost() reports whether err leaves the outcome of a request unknown. Either the catalog did not answer, or a proxy
// answered in its place.
func lost(err error) bool {
	if _, refused := errors.AsType[*tokenError](err); refused {
		return false // nothing was sent
	}
	s, answered := errors.AsType[*statusError](err)
	if !answered {
		return true
	}
	return s.status >= 500 && s.status != http.StatusNotImplemented || s.status == http.StatusTooManyRequests
}

// do sends one request. It escapes the elements of path, and joins them with slashes. An element that begins with ? is
// the query.
func (c *restClient) do(ctx context.Context, method string, in, out any, path ...string) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	for renewed := false; ; renewed = true {
		status, answer, err := c.send(ctx, method, body, path)
		refused, noToken := errors.AsType[*tokenError](err)
		switch {
		case noToken:
			return refused
		case err != nil:
			return fmt.Errorf("%s %s: %s", method, c.base.Host, c.redact(err.Error()))
		case (status == http.StatusUnauthorized || status == 419) && c.tokens.renew() && !renewed:
			continue
		case status == http.StatusUnauthorized:
			return fmt.Errorf("%w%s", c.fault(status, answer), c.tokens.hint())
		case status/100 != 2:
			return c.fault(status, answer)
		case out == nil || len(answer) == 0:
			return nil
		}
		if err := json.Unmarshal(answer, out); err != nil {
			return fmt.Errorf("read the catalog's answer: %w", err)
		}
		return nil
	}
}

func (c *restClient) send(ctx context.Context, method string, body []byte, path []string) (status int, answer []byte, err error) {
	at, query := strings.TrimSuffix(c.base.String(), "/")+"/v1", ""
	for _, part := range path {
		switch {
		case strings.HasPrefix(part, "?"):
			query = part
		case part != "":
			at += "/" + url.PathEscape(part)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, at+query, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Accept", "application/json")
	if c.vended {
		req.Header.Set("X-Iceberg-Access-Delegation", "vended-credentials")
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := c.tokens.sign(req); err != nil {
		return 0, nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, restAnswer+1))
	if err == nil && len(answer) > restAnswer {
		err = fmt.Errorf("the catalog's answer is longer than %d bytes", restAnswer)
	}
	return resp.StatusCode, answer, err
}

func (c *restClient) fault(status int, answer []byte) error {
	var text struct {
		Error struct{ Message, Type string }
	}
	_ = json.Unmarshal(answer, &text) // a proxy may answer with HTML
	message := c.redact(text.Error.Message)
	return &statusError{status: status, kind: c.redact(text.Error.Type), message: message[:min(len(message), restMessage)]}
}

func (c *restClient) redact(text string) string {
	for _, s := range c.secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "[redacted]")
		}
	}
	return text
}
