// Package receive accepts webhook deliveries: [Handler] serves POST /webhooks/{source}. It verifies the signature
// of a delivery over the raw bytes, appends the delivery to the inbox, and sends 200 only when the delivery would
// survive a power cut. It does not apply events. It never uses the content of an unverified delivery as data.
//
// Senders stop retrying after some errors. So there are only these responses: 200, 401 for deliveries whose
// signature is not valid, 405, 413, 415, and 503 with Retry-After for every error that may be temporary. Start
// with [New].
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

// MaxBody is the maximum size of a delivery's body, in bytes.
const MaxBody = 1 << 20

// Inbox stores deliveries. [state.Inbox] has these methods.
type Inbox interface {
	Append(ctx context.Context, e state.Event) (state.Appended, error)
	Capture(ctx context.Context, e state.Event) error
	Captures(ctx context.Context, source string) ([]state.Event, error)
	Forget(ctx context.Context, source string, through int64) error
}

var _ Inbox = state.Inbox(nil)

// Verifier verifies the signature of a delivery. [signature.Verifier] has this method.
type Verifier interface {
	Verify(now time.Time, d signature.Delivery) (signature.Verdict, error)
}

// Options configure a Handler. All fields except Inbox are optional.
type Options struct {
	Inbox    Inbox
	Observe  func(serve.WebhookSeen)                      // called after each delivery; must not block
	Received func(source string)                          // called when an event of a source, new or repeated, is in the inbox; must not block
	Hinted   func(source string)                          // called for each delivery that is captured, and for each delivery whose signature is not valid; must not block
	Signed   func(source string, header http.Header) bool // reports whether a delivery has the header in which the source sends its signature; nil: always true
	Log      *slog.Logger
	Budget   int64 // maximum total size of the bodies in memory, in bytes; 0: 64 MiB

	// Now is the clock for signatures and events, see [state.Store]. If Now is nil, the handler uses time.Now.
	Now func() time.Time
}

// Sources has the verifier of each source that accepts deliveries, by the name of the source. If the verifier is
// nil, deliveries are captured, to learn the signature scheme from them.
type Sources map[string]Verifier

// Handler accepts deliveries. It is safe for concurrent use.
type Handler struct {
	options Options
	sources atomic.Pointer[Sources]
	budget  *budget
	log     *sampled
}

var _ http.Handler = (*Handler)(nil)

// New returns a handler without sources: see [Handler.Define].
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
	h := &Handler{options: o, budget: newBudget(o.Budget), log: &sampled{log: o.Log}}
	h.sources.Store(&Sources{})
	return h
}

// Define replaces the sources. The change applies from the next delivery on.
func (h *Handler) Define(s Sources) { h.sources.Store(&s) }

type answer struct {
	status  int
	verdict string // the outcome, from a fixed set of words, for metrics
	err     error
	closing bool
}

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

// ServeHTTP handles one delivery.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	name, verifier, known := h.source(r)
	a := h.take(w, r, name, verifier, known)
	write(w, r, a)
	if !known {
		name = "" // otherwise a client could create any number of names in the metrics
	}
	h.options.Observe(serve.WebhookSeen{Source: name, Verdict: a.verdict, Status: a.status, Took: time.Since(start)})
	if a.status != http.StatusOK {
		h.log.warn("webhook refused", "source", name, "why", a.verdict, "status", a.status, "from", address(r.RemoteAddr), "error", a.err)
	}
}

// source returns the source that a request is for. The path must match exactly: it is neither cleaned nor
// redirected.
func (h *Handler) source(r *http.Request) (name string, v Verifier, known bool) {
	name, ok := strings.CutPrefix(r.URL.EscapedPath(), "/webhooks/")
	if !ok {
		return "", nil, false
	}
	v, known = (*h.sources.Load())[name]
	return name, v, known
}

func (h *Handler) take(w http.ResponseWriter, r *http.Request, name string, v Verifier, known bool) answer {
	if a, ok := admit(r, known); !ok {
		return a
	}
	body, release, a := h.read(w, r)
	defer release()
	if a.status != 0 {
		return a
	}
	now := h.options.Now()
	d := signature.Delivery{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Header: r.Header, Body: body}
	if v == nil {
		return h.capture(r, name, now, d)
	}
	verdict, err := v.Verify(now, d)
	if err != nil {
		h.options.Hinted(name) // pass on only the name, because the content is not verified
		return refused(err)
	}
	return h.store(r, event(name, now, d, verdict))
}

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

func refused(err error) answer {
	a := answer{status: http.StatusUnauthorized, verdict: string(signature.Mismatch), err: err}
	var why signature.Reason
	if errors.As(err, &why) {
		a.verdict = string(why)
	}
	return a
}

const appendTime = 10 * time.Second

// store appends an event to the inbox. It answers 200 only if the event is in the inbox. // Invariant 3
func (h *Handler) store(r *http.Request, e state.Event) answer {
	ctx, cancel := context.WithTimeout(r.Context(), appendTime)
	defer cancel()
	was, err := h.options.Inbox.Append(ctx, e)
	if err != nil {
		return unkept(err)
	}
	// Call Received even if the event is a repetition. The request of the first delivery may have timed out
	// before its event was stored, so that Received was not called.
	h.options.Received(e.Source)
	return answer{status: http.StatusOK, verdict: string(was)}
}

func (h *Handler) capture(r *http.Request, name string, now time.Time, d signature.Delivery) answer {
	ctx, cancel := context.WithTimeout(r.Context(), appendTime)
	defer cancel()
	if err := h.options.Inbox.Capture(ctx, state.Event{
		Source: name, Received: now, Header: captureHeader(d), Body: d.Body, From: access.Client(r), Likely: h.options.Signed(name, r.Header),
	}); err != nil {
		h.options.Hinted(name)
		return unkept(err)
	}
	h.options.Hinted(name)
	return answer{status: http.StatusOK, verdict: captured}
}

// unkept returns the response to a delivery that could not be stored. It makes the sender try again later.
func unkept(err error) answer {
	if errors.Is(err, state.ErrInboxFull) {
		return answer{status: http.StatusServiceUnavailable, verdict: full, err: err}
	}
	return answer{status: http.StatusServiceUnavailable, verdict: unavailable, err: err, closing: errors.Is(err, state.ErrInboxClosed)}
}

const retryAfter = 5

// write sends the response. The body of a 401 does not depend on the reason, so a forger learns nothing.
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
		_, _ = w.Write([]byte(text))
	}
}
