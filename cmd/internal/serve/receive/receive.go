// Package receive takes webhook deliveries: [Handler] answers
// POST /webhooks/{source}. A delivery is verified over its raw bytes, put into
// the inbox, and acknowledged only once it would survive a power cut. It is not
// applied here, and nothing that was not verified ever leaves the inbox as data.
//
// Senders give up on what looks permanent, so that an answer is one of few: 200,
// 401 for whatever is not authentic, 405, 413, 415, and 503 with Retry-After for
// everything that may be better later. Begin with [New].
package receive

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/access"
	"github.com/penstock-data/penstock/cmd/internal/signature"
	"github.com/penstock-data/penstock/state"
)

// MaxBody is how large the body of a delivery may be, in bytes.
const MaxBody = 1 << 20

// Inbox keeps deliveries. Each [state.Inbox] is one.
type Inbox interface {
	Append(ctx context.Context, e state.Event) (state.Appended, error)
	Capture(ctx context.Context, e state.Event) error
	Captures(ctx context.Context, source string) ([]state.Event, error)
	Forget(ctx context.Context, source string, through int64) error
}

var _ Inbox = state.Inbox(nil)

// Verifier says who sent a delivery. *signature.Verifier is one.
type Verifier interface {
	Verify(now time.Time, d signature.Delivery) (signature.Verdict, error)
}

// Options are what a handler is made of. All but Inbox may be left out.
type Options struct {
	Inbox    Inbox
	Observe  func(serve.WebhookSeen)                      // told of every verdict; must not block
	Received func(source string)                          // told when an event is in the inbox, which may be new; must not block
	Hinted   func(source string)                          // told of a delivery that was captured, or whose signature was refused; must not block
	Signed   func(source string, header http.Header) bool // whether a delivery has the header that signatures are expected in; nil: each has
	Log      *slog.Logger
	Budget   int64 // bytes of bodies in memory; 0 is 64 MiB

	// Now is the time of day that signatures are judged by and events bear: see
	// [state.Store]. nil is this machine's.
	Now func() time.Time
}

// Sources are the sources that deliveries may come for, by their names. One
// without a verifier learns: what comes for it is captured and not applied.
type Sources map[string]Verifier

// Handler answers deliveries. It is safe for concurrent use.
type Handler struct {
	Options
	sources atomic.Pointer[Sources]
	budget  *budget
	log     *sampled
}

var _ http.Handler = (*Handler)(nil)

// New returns a handler that has no sources yet: see [Handler.Define].
func New(o Options) *Handler {
	if o.Observe == nil {
		o.Observe = func(serve.WebhookSeen) {}
	}
	if o.Received == nil {
		o.Received = func(string) {}
	}
	if o.Hinted == nil {
		o.Hinted = func(string) {}
	}
	if o.Signed == nil {
		o.Signed = func(string, http.Header) bool { return true }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Budget == 0 {
		o.Budget = defaultBudget
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	h := &Handler{Options: o, budget: newBudget(o.Budget), log: &sampled{log: o.Log}}
	h.sources.Store(&Sources{})
	return h
}

// Define makes these the sources from the next delivery on.
func (h *Handler) Define(s Sources) { h.sources.Store(&s) }

// answer is what a delivery comes to.
type answer struct {
	status  int
	verdict string // one of a small set, for metrics
	err     error  // why, for the log
	closing bool   // the connection is of no more use
}

// Verdicts beside those of [state.Appended] and [signature.Reasons].
const (
	captured    = "captured"
	unknown     = "unknown source"
	method      = "method"
	contentType = "content type"
	encoding    = "content encoding"
	tooLarge    = "too large"
	incomplete  = "body incomplete"
	busy        = "too many at once"
	full        = "inbox full"
	unavailable = "inbox unavailable"
)

// ServeHTTP answers one delivery.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	name, verifier, known := h.source(r)
	a := h.take(w, r, name, verifier, known)
	write(w, r, a)
	if !known {
		name = "" // whoever asks could else make up as many as he likes
	}
	h.Observe(serve.WebhookSeen{Source: name, Verdict: a.verdict, Status: a.status, Took: time.Since(start)})
	if a.status != http.StatusOK {
		h.log.warn("webhook refused", "source", name, "why", a.verdict, "status", a.status, "from", address(r.RemoteAddr), "error", a.err)
	}
}

// source finds whom the delivery is for. Any path that is not precisely that of
// a source is of none: nothing is cleaned or redirected.
func (h *Handler) source(r *http.Request) (name string, v Verifier, known bool) {
	name, ok := strings.CutPrefix(r.URL.EscapedPath(), "/webhooks/")
	if !ok {
		return "", nil, false
	}
	v, known = (*h.sources.Load())[name]
	return name, v, known
}

// take goes through the steps of a delivery in their fixed order.
func (h *Handler) take(w http.ResponseWriter, r *http.Request, name string, v Verifier, known bool) answer {
	if a, ok := admit(r, known); !ok {
		return a
	}
	body, release, a := h.read(w, r)
	defer release()
	if a.status != 0 {
		return a
	}
	now := h.Now()
	d := signature.Delivery{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Header: r.Header, Body: body}
	if v == nil {
		return h.capture(r, name, now, d)
	}
	verdict, err := v.Verify(now, d)
	if err != nil {
		h.Hinted(name) // and nothing of what it says
		return refused(err)
	}
	return h.store(r, event(name, now, d, verdict))
}

// admit judges what is known before the body is read.
func admit(r *http.Request, known bool) (answer, bool) {
	switch {
	case r.Method != http.MethodPost:
		return answer{status: http.StatusMethodNotAllowed, verdict: method}, false
	case !known:
		return answer{status: http.StatusUnauthorized, verdict: unknown}, false
	case !readable(r.Header.Values("Content-Type")):
		return answer{status: http.StatusUnsupportedMediaType, verdict: contentType}, false
	case !identity(r.Header.Values("Content-Encoding")):
		return answer{status: http.StatusUnsupportedMediaType, verdict: encoding}, false
	case r.ContentLength > MaxBody:
		return answer{status: http.StatusRequestEntityTooLarge, verdict: tooLarge, closing: true}, false
	}
	return answer{}, true
}

// refused is the answer to what is not authentic.
func refused(err error) answer {
	a := answer{status: http.StatusUnauthorized, verdict: string(signature.Mismatch), err: err}
	var why signature.Reason
	if errors.As(err, &why) {
		a.verdict = string(why)
	}
	return a
}

// appendTime is how long a sender is kept waiting for the disk.
const appendTime = 10 * time.Second

// store keeps an event, and acknowledges it only then. // Invariant 3
func (h *Handler) store(r *http.Request, e state.Event) answer {
	ctx, cancel := context.WithTimeout(r.Context(), appendTime)
	defer cancel()
	was, err := h.Inbox.Append(ctx, e)
	if err != nil {
		return unkept(err)
	}
	// A repetition may be the first that is told of: whoever sent it before has left,
	// or the time was up, while it was written.
	h.Received(e.Source)
	return answer{status: http.StatusOK, verdict: string(was)}
}

// capture keeps a delivery of a source whose scheme is not known yet.
func (h *Handler) capture(r *http.Request, name string, now time.Time, d signature.Delivery) answer {
	ctx, cancel := context.WithTimeout(r.Context(), appendTime)
	defer cancel()
	if err := h.Inbox.Capture(ctx, state.Event{
		Source: name, Received: now, Header: captureHeader(d), Body: d.Body, From: access.Client(r), Likely: h.Signed(name, r.Header),
	}); err != nil {
		h.Hinted(name)
		return unkept(err)
	}
	h.Hinted(name)
	return answer{status: http.StatusOK, verdict: captured}
}

// unkept is the answer when a delivery could not be kept: it may be, later.
func unkept(err error) answer {
	if errors.Is(err, state.ErrInboxFull) {
		return answer{status: http.StatusServiceUnavailable, verdict: full, err: err}
	}
	return answer{status: http.StatusServiceUnavailable, verdict: unavailable, err: err, closing: errors.Is(err, state.ErrInboxClosed)}
}

// retryAfter is when a sender that was told 503 may come again, in seconds.
const retryAfter = 5

// write answers. What is not authentic gets one body, whatever the reason.
func write(w http.ResponseWriter, r *http.Request, a answer) {
	header := w.Header()
	if a.closing {
		header.Set("Connection", "close")
	}
	switch a.status {
	case http.StatusMethodNotAllowed:
		header.Set("Allow", http.MethodPost)
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", "Signature")
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	header.Set("Cache-Control", "no-store")
	text := ""
	if a.status != http.StatusOK {
		header.Set("Content-Type", "text/plain; charset=utf-8")
		text = strings.ToLower(http.StatusText(a.status)) + "\n"
	}
	header.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(text)) // nobody is left to tell
	}
}
