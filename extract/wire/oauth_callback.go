package wire

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// callback is where a browser comes back to after a sign-in: a listener on a
// loopback address that takes one answer and closes.
type callback struct {
	nonce  string
	issuer string
	host   string // 127.0.0.1:port, as a browser that was sent there names it
	server *http.Server
	closed chan struct{}

	mu     sync.Mutex
	used   bool
	answer chan landed
	once   sync.Once
}

// landed is what a browser has brought.
type landed struct {
	code Secret
	err  error
}

const callbackPath = "/callback"

// listen opens the listener. Port 0 takes any that is free.
func listen(port int, nonce, issuer string) (*callback, error) {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen for the browser: %w", err)
	}
	c := &callback{
		nonce: nonce, issuer: issuer, host: l.Addr().String(), closed: make(chan struct{}), answer: make(chan landed, 1),
	}
	c.server = &http.Server{
		Handler: c, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
		MaxHeaderBytes: 32 << 10,
	}
	c.server.SetKeepAlivesEnabled(false)
	go func() {
		defer close(c.closed)
		_ = c.server.Serve(l) // until close
	}()
	return c, nil
}

func (c *callback) address() string { return "http://" + c.host + callbackPath }

// wait gives the code that the browser brings.
func (c *callback) wait(ctx context.Context) (Secret, error) {
	select {
	case a := <-c.answer:
		return a.code, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// close lets the page under way go out, then frees the port. Twice is fine.
func (c *callback) close() {
	c.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		if c.server.Shutdown(ctx) != nil {
			_ = c.server.Close()
		}
		<-c.closed
	})
}

// The pages. They hold nothing of what the browser has brought.
const (
	pageDone = `<!doctype html><meta charset="utf-8"><title>penstock</title><p>penstock has its answer: the terminal tells how it went. This page can be closed.</p>`
	pageNot  = `<!doctype html><meta charset="utf-8"><title>penstock</title><p>This is not the answer that penstock is waiting for.</p>`
)

// ServeHTTP takes the one answer that carries this sign-in's state. What does
// not is turned away, and changes nothing: anyone on this machine can knock.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	query, err := url.ParseQuery(r.URL.RawQuery)
	switch {
	case r.Method != http.MethodGet, r.URL.Path != callbackPath:
		w.WriteHeader(http.StatusNotFound)
	case r.Host != c.host, err != nil, len(query["state"]) != 1, !same(query.Get("state"), c.nonce):
		w.WriteHeader(http.StatusBadRequest)
	case !c.take():
		w.WriteHeader(http.StatusGone)
	default:
		_, _ = w.Write([]byte(pageDone)) // the browser may have gone
		c.answer <- c.read(query)
		return
	}
	_, _ = w.Write([]byte(pageNot))
}

// take reports whether this is the first answer.
func (c *callback) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.used
	c.used = true
	return first
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// read judges an answer that carries the right state.
func (c *callback) read(query url.Values) landed {
	switch iss := query["iss"]; {
	case c.issuer != "" && (len(iss) != 1 || iss[0] != c.issuer):
		return landed{err: errors.New("the answer does not come from the issuer in the configuration; nothing was exchanged")}
	case query.Get("error") != "":
		words := query.Get("error")
		if more := query.Get("error_description"); more != "" {
			words += ": " + more
		}
		return landed{err: &denied{"the server says " + words}}
	case len(query["code"]) != 1 || query.Get("code") == "":
		return landed{err: errors.New("the answer holds no code")}
	}
	return landed{code: Secret(query.Get("code"))}
}
