// Package wire sends penstock's HTTP requests to a source. No other package connects to a source. Package wire does
// not interpret records.
//
// A [Client] sends requests to one origin with one [Credential]. [New] compiles the [Route] list. The client can make
// no other requests, and no method takes a URL. Every request waits for the [budget.Governor] of its credential,
// which keeps the server's rate limit. The time and the size of answers are limited. Requests are retried if that is
// safe. Each failure has one of a few classes: see [Error].
//
// Create a client with [New], make requests with [Client.Read], and free the body's memory with [Response.Release].
package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/penstock-data/penstock/extract/wire/budget"
)

// Options configure a [Client]. BaseURL and Allow are required. All other fields may be zero.
type Options struct {
	Name       string     // name of the source, for error messages
	BaseURL    string     // scheme://host[:port], optionally with a path that precedes every route
	Allow      []Route    // the only requests that the client can make; GET and POST
	Credential Credential // nil: none

	// AuthHeader is the header for the token. AuthScheme is a word before the token, such as Bearer in "Bearer
	// TOKEN". If AuthHeader is "", the header is Authorization: Bearer TOKEN.
	AuthHeader, AuthScheme string

	// Headers are sent with every request, in addition to AuthHeader. [HeaderFault] says which headers are not allowed.
	Headers map[string]Secret

	// Governor is shared by all clients with the same credential, because the server counts their requests together.
	// If it is nil, New creates one from Rate.
	Governor *budget.Governor
	Rate     budget.Rate // zero: learned from the answers

	// Redactor is shared by all clients of a process, because one server may repeat a secret that was sent to another
	// server. If it is nil, New creates one.
	Redactor *Redactor

	UserAgent string
	Timeouts  Timeouts
	MaxBody   int64 // maximum size of a decompressed body; default 64 MiB
	MaxRatio  int64 // maximum ratio of decompressed to compressed size; default 200

	// MaxAttempts is the number of transient faults after which a request ends; default 10. A 429 is not a transient
	// fault.
	MaxAttempts int

	// MaxWait is the longest wait in a request; default 15 minutes. If a longer wait is necessary, the request fails.
	// The field NotBefore of its [Error] says when the wait would end.
	MaxWait time.Duration

	// Attempted is called after every sent request, from many goroutines. It must not block. It may be nil.
	Attempted func(Attempt)

	AllowPlaintext bool        // http:// to hosts other than this machine
	Identity       bool        // disable the compression of bodies
	TLS            *tls.Config // for example with the RootCAs of a private certificate authority
	Proxy          *url.URL    // proxy for https origins

	// Dial opens the connections to the origin; the default opens TCP connections. Tests in virtual time replace it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Timeouts limit one try of a request. A zero field means the default.
type Timeouts struct {
	Connect   time.Duration // TCP; default 10 s
	Handshake time.Duration // TLS; default 10 s
	Header    time.Duration // from the sent request to the answer's header; default 60 s
	Idle      time.Duration // between two reads of a body; default 30 s
	Total     time.Duration // the whole try; default 10 min

	// In every period of length SlowAfter, at least MinBytes of a body must arrive. The defaults are 256 KiB and 60
	// s, about 4 kB/s.
	MinBytes  int64
	SlowAfter time.Duration
}

// Client reads from one origin. It is safe for concurrent use. The governor limits the requests in flight.
type Client struct {
	opts         Options
	base         *url.URL
	allow        allowList
	cred         Credential
	gov          *budget.Governor
	redact       *Redactor
	transport    *http.Transport
	buffers      bufferPool
	tokenRefused tokenRefused
	reached      atomic.Bool
	sizeHint     atomic.Int64 // size of the last body, used when there is no Content-Length
}

// New returns a client for one origin. It returns an error if the base URL contains a credential, or would send the
// credential in clear text. Each route must be a read, and must not be reserved for the credential. New makes no
// request.
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
		o.Governor = budget.New(budget.Plan{Rate: o.Rate})
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

// Governor returns the governor of this client's requests.
func (c *Client) Governor() *budget.Governor { return c.gov }

// Redactor returns the redactor that knows this client's secrets, including those of later logins and refreshes.
func (c *Client) Redactor() *Redactor { return c.redact }

// Close closes idle connections. Requests under way continue.
func (c *Client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// Request is one read: a route of the allow-list, and its parameters.
type Request struct {
	Method string            // "" means GET
	Path   string            // the route's template: /api/leads/{id}
	Params map[string]string // one value for each {name} of the template
	Query  url.Values
	Body   []byte // JSON, for reads that use POST

	Range string // the Range header; "" for none

	Anonymous bool // send no credential
	File      bool // accept any content type; otherwise the body must be JSON

	// Probe marks a request that tests a hypothesis about the API, for example that a parameter exists. A 5xx answer
	// refutes the hypothesis: the request is not repeated, and does not count as a failure of the server. A 5xx
	// answer with Retry-After shows that the server is failing, so it is handled as usual.
	Probe bool

	// Check, if not nil, inspects the body of a successful answer before Read returns it. If Check returns an error,
	// the body is broken. The request is repeated a few times, and then fails as [Malformed].
	Check func(body []byte) error

	// Take, if not nil, is called with the size of the memory for the body before that memory is taken. If it returns
	// false, the request fails. Take should then also cancel the request, so that there is no other attempt.
	Take func(size int64) bool
}

// Response is a complete answer with status 2xx.
type Response struct {
	Status   int
	Header   http.Header
	Body     []byte        // decompressed, without byte order mark; valid until Release
	Notice   string        // a PHP warning before the body, redacted; usually ""
	Attempts int           // requests made, including redirects and retries
	Sent     time.Time     // when the last request was sent
	Elapsed  time.Duration // from Sent until the body was read

	buf *buffer
}

// Release frees the body's memory for reuse. Do not use Body afterwards. A second call does nothing. Release is
// optional.
func (r *Response) Release() {
	r.Body = nil
	if r.buf != nil {
		r.buf.release()
		r.buf = nil
	}
}

// Read makes the request and returns its answer. It waits for the governor, follows redirects within the origin,
// renews a refused token, and retries faults that may pass. Its error is an *[Error], or wraps the cause if ctx has
// ended. It reports its beginning and its end to the trace of ctx: see [WithTrace].
func (c *Client) Read(ctx context.Context, r Request) (*Response, error) {
	defer BeginRead(ctx)()
	k, err := c.newCall(r)
	if err != nil {
		return nil, err
	}
	return k.run(ctx)
}
