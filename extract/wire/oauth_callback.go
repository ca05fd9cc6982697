package wire

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// callback receives the browser's answer after a sign-in. It listens on a loopback address, accepts one answer, and
// closes. If a person pastes the answer, it does not listen.
type callback struct {
	nonce    string
	issuer   issuerName
	redirect *url.URL // address to which the server sends the browser, with the port
	server   *http.Server
	serving  sync.WaitGroup

	mu     sync.Mutex
	used   bool
	answer chan callbackResult
	once   sync.Once
}

type issuerName struct {
	name     string // "": any issuer
	unstated bool   // an answer may omit the name
}

func (n issuerName) matches(iss []string) bool {
	return n.name == "" || len(iss) == 0 && n.unstated || len(iss) == 1 && iss[0] == n.name
}

type callbackResult struct {
	code Secret
	err  error
}

func listen(redirect *url.URL, nonce string, issuer issuerName) (*callback, error) {
	all, at, err := listenFor(redirect)
	if err != nil {
		return nil, err
	}
	c := &callback{nonce: nonce, issuer: issuer, redirect: at, answer: make(chan callbackResult, 1)}
	c.server = &http.Server{
		Handler: c, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
		MaxHeaderBytes: 32 << 10,
	}
	c.server.SetKeepAlivesEnabled(false)
	for _, l := range all {
		c.serving.Go(func() { _ = c.server.Serve(l) })
	}
	return c, nil
}

func (c *callback) wait(ctx context.Context) (Secret, error) {
	select {
	case a := <-c.answer:
		return a.code, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (c *callback) code(ctx context.Context, paste func(context.Context) (string, error)) (Secret, error) {
	if paste == nil {
		return c.wait(ctx)
	}
	text, err := paste(ctx)
	if err != nil {
		return "", err
	}
	return c.pasted(text)
}

// close sends the rest of the page, then stops listening. It may be called more than once.
func (c *callback) close() {
	c.once.Do(func() {
		if c.server == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		if c.server.Shutdown(ctx) != nil {
			_ = c.server.Close()
		}
		c.serving.Wait()
	})
}

// The pages contain no text from the request, because any program on this machine can send a request.
const (
	pageDone = `<!doctype html><meta charset="utf-8"><title>penstock</title><p>penstock has received the answer. See the terminal for the result. You can close this page.</p>`
	pageNot  = `<!doctype html><meta charset="utf-8"><title>penstock</title><p>This is not the answer that penstock expects.</p>`
)

// ServeHTTP accepts one answer with the state of this sign-in. It refuses all other requests, because any program on
// this machine can send requests.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	query, err := url.ParseQuery(r.URL.RawQuery)
	switch {
	case r.Method != http.MethodGet, r.URL.Path != orDefault(c.redirect.Path, "/"):
		w.WriteHeader(http.StatusNotFound)
	case !c.hostMatches(r.Host), err != nil, !c.stateMatches(query):
		w.WriteHeader(http.StatusBadRequest)
	case !c.take():
		w.WriteHeader(http.StatusGone)
	default:
		_, _ = w.Write([]byte(pageDone))
		c.answer <- c.read(query)
		return
	}
	_, _ = w.Write([]byte(pageNot))
}

func (c *callback) hostMatches(host string) bool {
	return host == c.redirect.Host || c.redirect.Port() == "80" && host == c.redirect.Hostname()
}

func (c *callback) stateMatches(query url.Values) bool {
	return len(query["state"]) == 1 && same(query.Get("state"), c.nonce)
}

func (c *callback) pasted(text string) (Secret, error) {
	text = strings.TrimSpace(text)
	u, err := url.Parse(text)
	switch {
	case text == "":
		return "", errors.New("no address was given")
	case err != nil || u.Host == "":
		return "", errors.New("this is not an address: paste all that the browser shows, from http to the end")
	case u.Scheme != c.redirect.Scheme || u.Hostname() != c.redirect.Hostname() || orDefault(u.Path, "/") != orDefault(c.redirect.Path, "/"):
		return "", fmt.Errorf("the server sends the browser to %s, but this is another address", c.redirect)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || !c.stateMatches(query) {
		return "", errors.New("this address does not belong to this sign-in: its state differs; nothing was exchanged")
	}
	a := c.read(query)
	return a.code, a.err
}

func (c *callback) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.used
	c.used = true
	return first
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func (c *callback) read(query url.Values) callbackResult {
	switch {
	case !c.issuer.matches(query["iss"]):
		return callbackResult{err: errors.New("the answer does not come from the issuer in the configuration; nothing was exchanged")}
	case query.Get("error") != "":
		words := query.Get("error")
		if more := query.Get("error_description"); more != "" {
			words += ": " + more
		}
		return callbackResult{err: &denied{"the server says " + words}}
	case len(query["code"]) != 1 || query.Get("code") == "":
		return callbackResult{err: errors.New("the answer has no authorization code")}
	}
	return callbackResult{code: Secret(query.Get("code"))}
}
