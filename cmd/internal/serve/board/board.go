// Package board is the dashboard of the daemon: pages that are made on the
// server and work without scripts, the same facts as a JSON API that OpenAPI
// describes, and live updates as server-sent events.
//
// It shows what [Facts] tells and has [Control] do what a visitor may do. It
// knows no destination, no schedule and no inbox. Who may see it, and from which
// pages its forms may be sent, is decided here as well: see [New].
package board

import (
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/serve/access"
)

// Config is what a Board shows, and to whom.
type Config struct {
	Facts   Facts
	Control Control
	Feed    *Feed // of what changes; nil: nothing is told

	Access  *access.Guard                      // decides who may see and do what; nil: everyone on this machine may do everything
	Record  func(context.Context, Audit) error // writes the audit log; nil: there is none
	Version string                             // of penstock
	Log     *slog.Logger                       // gets sign-ins and actions; nil: discards them

	Clock func() time.Time // the time of day that the facts go by; nil: this machine's
}

// Board is an http.Handler that serves the dashboard, the API below /api/v1/ and
// the live updates at /events.
type Board struct {
	Config
	mux      *http.ServeMux
	patterns []string // of mux
	guarded  http.Handler
	pages    map[string]*template.Template
	openapi  []byte
	feed     *Feed
	sessions *sessions

	followers atomic.Int64
	closing   sync.Once
	closed    chan struct{}
}

// New makes a board. With tokens its pages want a sign-in, and its API a bearer token or
// a signed-in visitor. Without tokens everyone who reaches it without a proxy may use it, so
// that it must listen on loopback only. Either way it takes forms from its own pages only. That a request was made to a name of ours, its server sees to.
func New(c Config) (*Board, error) {
	if c.Facts == nil || c.Control == nil {
		return nil, errors.New("make board: no facts, or no control")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	b := &Board{Config: c, mux: http.NewServeMux(), feed: c.Feed, closed: make(chan struct{}), sessions: newSessions(time.Now)}
	if b.feed == nil {
		b.feed = &Feed{}
	}
	if b.Log == nil {
		b.Log = slog.New(slog.DiscardHandler)
	}
	if b.Access == nil {
		b.Access = access.New(access.Options{})
	}
	var err error
	if b.pages, err = parsePages(c.Clock); err != nil {
		return nil, err
	}
	if b.openapi, err = describe(c.Version); err != nil {
		return nil, err
	}
	b.routes()
	b.guarded = b.ownPages(b.mux)
	return b, nil
}

// Close ends the live updates, so that a server which shuts down does not wait for
// their readers.
func (b *Board) Close() { b.closing.Do(func() { close(b.closed) }) }

// ServeHTTP implements http.Handler.
func (b *Board) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	b.guarded.ServeHTTP(w, r)
}

// maxForm is more than any form or body that the board reads. // Invariant 6
const maxForm = 64 << 10

// routes says what is where. Everything but signing in and the parts that pages
// are made of is for those who may see the board.
func (b *Board) routes() {
	for _, v := range views() {
		b.handle("GET "+v.path, b.seen(b.show(v)))
	}
	for _, e := range endpoints() {
		b.handle(e.method+" "+e.path, b.seen(b.answer(e)))
	}
	for _, a := range actions() {
		b.handle("POST "+a.path, b.seen(b.act(a)))
	}
	b.handle("GET /api/v1/openapi.json", b.seen(http.HandlerFunc(b.description)))
	b.handle("GET /events", b.seen(http.HandlerFunc(b.events)))
	b.handle("GET /assets/{name}", http.HandlerFunc(asset))
	b.handle("GET /favicon.ico", http.RedirectHandler(assetURL("icon.svg"), http.StatusMovedPermanently))
	b.handle("GET /signin", http.HandlerFunc(b.signInPage))
	b.handle("POST /signin", http.HandlerFunc(b.signIn))
	b.handle("POST /signout", http.HandlerFunc(b.signOut))
	b.handle("/", b.seen(http.HandlerFunc(b.nowhere)))
}

func (b *Board) handle(pattern string, h http.Handler) {
	b.patterns = append(b.patterns, pattern)
	b.mux.Handle(pattern, h)
}

// Patterns are those of the board's mux.
func (b *Board) Patterns() []string { return slices.Clone(b.patterns) }

// nowhere answers for a path that nothing is at.
func (b *Board) nowhere(w http.ResponseWriter, r *http.Request) {
	b.fail(w, r, ErrUnknown)
}
