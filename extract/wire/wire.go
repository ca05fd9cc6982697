// Package wire is how a request leaves the house: the only place of penstock
// that dials out. It moves bytes lawfully and knows nothing of what they mean.
//
// A [Client] speaks to one origin with one [Credential]. What may be requested
// is compiled from the [Route] list at [New]: there is no method that takes a
// URL. Every request passes the [Governor] of its credential, so that the
// server never counts more than its limit; answers are bounded in time and
// size, retried where that is safe, and sorted into a few classes of [Error].
//
// Begin with [New], ask with [Client.Read], and give the body back with
// [Response.Release].
package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// Options say how a [Client] is made. BaseURL and Allow are needed, the zero
// value of the rest works.
type Options struct {
	Name       string     // of the source, for error messages
	BaseURL    string     // scheme://host[:port], optionally with a path before every route
	Allow      []Route    // the only requests there are; GET and POST
	Credential Credential // nil: none

	// AuthHeader is the header that the credential's token goes in, behind AuthScheme and
	// a space where there is one. "" is Authorization: Bearer TOKEN.
	AuthHeader, AuthScheme string

	// Headers go with every request. None may be the credential's, frame the request or
	// cut the answer: see [HeaderFault].
	Headers map[string]Secret

	// Governor is shared by all clients with the same credential, since the
	// server counts them together. Nil makes one from Rate.
	Governor *Governor
	Rate     Rate // zero: learned from the answers

	// Redactor is shared by all clients of a process: what one server is told,
	// another may say. Nil makes one.
	Redactor *Redactor

	UserAgent string
	Timeouts  Timeouts
	MaxBody   int64 // of a decompressed body; default 64 MiB
	MaxRatio  int64 // decompressed to compressed; default 200

	// MaxAttempts bounds the tries of one request that meets transient faults;
	// default 10. Answers that ask to slow down do not count against it.
	MaxAttempts int

	// MaxWait is the longest wait that is slept through; a longer one ends the
	// request with an [Error] that says when to come back. Default 15 minutes.
	MaxWait time.Duration

	// Attempted is told of every request that went out; it must not block. It is
	// called from many goroutines, and may be nil.
	Attempted func(Attempt)

	AllowPlaintext bool        // http:// to hosts other than this machine
	Identity       bool        // ask for bodies without compression
	TLS            *tls.Config // for RootCAs of a private authority
	Proxy          *url.URL    // for https origins: the tunnel to go through
}

// Timeouts bound one try of a request. Zero fields take their default.
type Timeouts struct {
	Connect   time.Duration // TCP; default 10 s
	Handshake time.Duration // TLS; default 10 s
	Header    time.Duration // from the request sent to the answer's header; default 60 s
	Idle      time.Duration // between two reads of a body; default 30 s
	Total     time.Duration // the whole try; default 10 min

	// A body must bring at least MinBytes in every SlowAfter; defaults 256 KiB
	// and 60 s, about 4 kB/s.
	MinBytes  int64
	SlowAfter time.Duration
}

// Client reads from one origin. It is safe for concurrent use; how many
// requests are in the air at once is the governor's business.
type Client struct {
	opts      Options
	base      *url.URL
	allow     allowList
	cred      Credential
	gov       *Governor
	redact    *Redactor
	transport *http.Transport
	memory    bufferPool
	averse    tokenRefused
	reached   atomic.Bool  // some request was answered
	sizeHint  atomic.Int64 // of the last body, for one without a Content-Length
}

// New returns a client for one origin. It refuses a base URL that would send
// the credential in clear text or carries one itself, and routes that are not
// reads or are the credential's own. No request is made.
func New(o Options) (*Client, error) {
	o = o.withDefaults()
	base, err := parseBase(o.BaseURL, o.AllowPlaintext)
	if err != nil {
		return nil, fmt.Errorf("open source %s: %w", o.Name, err)
	}
	allow, err := compile(o.Allow)
	if err != nil {
		return nil, fmt.Errorf("open source %s: %w", o.Name, err)
	}
	if err := o.checkHeaders(); err != nil {
		return nil, fmt.Errorf("open source %s: %w", o.Name, err)
	}
	c := &Client{
		opts:      o,
		base:      base,
		allow:     allow,
		cred:      o.Credential,
		gov:       o.Governor,
		redact:    o.Redactor,
		transport: newTransport(o, base),
	}
	c.redact.Add(o.Credential.Secrets()...)
	if o.Proxy != nil {
		password, _ := o.Proxy.User.Password()
		c.redact.Add(Secret(password))
	}
	return c, nil
}

func (o Options) withDefaults() Options {
	if o.Credential == nil {
		o.Credential = None()
	}
	if o.Governor == nil {
		o.Governor = NewGovernor(Budget{Rate: o.Rate})
	}
	if o.Redactor == nil {
		o.Redactor = NewRedactor()
	}
	o.UserAgent = orDefault(o.UserAgent, "penstock")
	o.MaxBody = orDefault(o.MaxBody, 64<<20)
	o.MaxRatio = orDefault(o.MaxRatio, 200)
	o.MaxAttempts = orDefault(o.MaxAttempts, 10)
	o.MaxWait = orDefault(o.MaxWait, 15*time.Minute)

	t := &o.Timeouts
	t.Connect = orDefault(t.Connect, 10*time.Second)
	t.Handshake = orDefault(t.Handshake, 10*time.Second)
	t.Header = orDefault(t.Header, 60*time.Second)
	t.Idle = orDefault(t.Idle, 30*time.Second)
	t.Total = orDefault(t.Total, 10*time.Minute)
	t.MinBytes = orDefault(t.MinBytes, 256<<10)
	t.SlowAfter = orDefault(t.SlowAfter, 60*time.Second)
	return o
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Governor returns the governor this client asks before each request.
func (c *Client) Governor() *Governor { return c.gov }

// Redactor returns the redactor that knows this client's secrets, those that a
// login or refresh brings later included.
func (c *Client) Redactor() *Redactor { return c.redact }

// Close drops idle connections. Requests under way are not disturbed.
func (c *Client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// Request is one read: a route of the allow-list and what goes into it.
type Request struct {
	Method string            // "" means GET
	Path   string            // the route's template: /api/leads/{id}
	Params map[string]string // one value for each {name} of the template
	Query  url.Values
	Body   []byte // JSON, for reads that are POSTs

	Range string // the header Range; "" for none

	Anonymous bool // without the credential
	File      bool // any content type is welcome; else the body must be JSON

	// Probe marks a request that tries out a hypothesis: a parameter, a page that may
	// not exist. An answer 5xx refutes the hypothesis, so the request is not repeated
	// and the governor does not count it as a failure of the server. A 5xx with
	// Retry-After speaks of the server, and is handled as for any other request.
	Probe bool

	// Check, if not nil, looks at a successful body before it is handed out. An
	// error from it means that the body is cut or broken: it is asked for again
	// a few times, and then the request ends as [Malformed].
	Check func(body []byte) error
}

// Response is an answer with status 2xx whose body came whole.
type Response struct {
	Status   int
	Header   http.Header
	Body     []byte        // decompressed, without byte order mark; valid until Release
	Notice   string        // an interpreter's warning that stood before the body, redacted; "" as a rule
	Attempts int           // requests it took, redirects and retries included
	Sent     time.Time     // when the last of them went out
	Elapsed  time.Duration // from Sent until the body had been read

	buf *buffer
}

// Release gives the body's memory back for another response. Body must not be
// used afterwards. Releasing twice, or never, is fine.
func (r *Response) Release() {
	r.Body = nil
	if r.buf != nil {
		r.buf.release()
		r.buf = nil
	}
}

// Read makes the request and returns its answer. It waits for its turn under
// the governor, follows redirects within the origin, renews the credential
// once, and tries again where the fault may pass. The error is an *[Error],
// save when ctx has ended: then it wraps the cause.
func (c *Client) Read(ctx context.Context, r Request) (*Response, error) {
	k, err := c.newCall(r)
	if err != nil {
		return nil, err
	}
	return k.run(ctx)
}
