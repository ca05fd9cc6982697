// Package board is the dashboard of the daemon. Its pages are rendered on the server and work without scripts.
// The same data is available as a JSON API with an OpenAPI document, and changes are sent as server-sent events.
//
// Board shows the data of [Facts] and passes actions to [Control]. It does not depend on destinations, schedules or the
// inbox. It checks the tokens of its visitors, and accepts forms only from its own pages: see [New].
package board

import (
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/browse"
	"github.com/penstock-data/penstock/cmd/internal/serve/access"
)

// Config configures a Board.
type Config struct {
	Facts   Facts
	Control Control
	Data    *browse.Browser // reads tables; nil: there are no pages about data
	Feed    *Feed           // source of live updates; nil: there are none

	Access  *access.Guard                      // checks access; nil: a guard without tokens
	Record  func(context.Context, Audit) error // writes the audit log; nil: no audit log
	Queue   http.Handler                       // read-only pages below /queue/; nil: there are none
	Version string                             // version of penstock
	Log     *slog.Logger                       // gets sign-ins and actions; nil: discards them

	Clock func() time.Time // clock of the times in Facts; nil: time.Now
}

// Board is an http.Handler that serves the dashboard, the API at /api/v1/ and the live updates at /events.
type Board struct {
	Config
	mux      *http.ServeMux
	patterns []string // patterns of mux, in order of registration
	guarded  http.Handler
	pages    map[string]*template.Template
	openapi  []byte
	feed     *Feed
	sessions *sessions
	links    links
	data     *dataPages
	history  trends

	followers atomic.Int64
	closing   sync.Once
	closed    chan struct{}
}

// New returns a board. If tokens are configured, a visitor of its pages must sign in, and a request to its API
// needs a bearer token or a session. If no tokens are configured, the board accepts every request that did not come
// through a proxy. The server must then listen only on loopback. The board accepts forms only from its own pages. The
// server must check the Host header.
func New(c Config) (*Board, error) {
	if c.Facts == nil || c.Control == nil {
		return nil, errors.New("create board: Facts and Control are required")
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
	b.data, b.history = newDataPages(b), trends{b.Facts, b.Clock}
	b.routes()
	b.guarded = b.ownPages(b.mux)
	return b, nil
}

// Close ends the live updates. Their open connections would delay the shutdown of the server.
func (b *Board) Close() { b.closing.Do(func() { close(b.closed) }) }

// ServeHTTP implements http.Handler.
func (b *Board) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	most := int64(maxForm)
	if strings.HasPrefix(r.URL.Path, "/data/") {
		most = maxSQLForm
	}
	r.Body = http.MaxBytesReader(w, r.Body, most)
	b.guarded.ServeHTTP(w, r)
}

// maxForm limits the body of a request, and maxSQLForm the form of the SQL editor: a character of a statement may take
// three in a form. All forms are smaller. // Invariant 6
const (
	maxForm    = 64 << 10
	maxSQLForm = 3*browse.MaxStatement + 4<<10
)

// routes registers all routes. Only the sign-in and the assets are open to visitors who have not signed in.
func (b *Board) routes() {
	for _, v := range views() {
		b.handle("GET "+v.path, b.seen(b.show(v)))
	}
	b.handle("POST "+sqlPath, b.sent(access.Query, http.HandlerFunc(b.data.runSQL)))
	for _, e := range endpoints() {
		b.handle(e.method+" "+e.path, b.seen(b.answer(e)))
	}
	for _, a := range actions() {
		b.handle("POST "+a.path, b.seen(b.act(a)))
	}
	b.handle("GET /api/v1/openapi.json", b.seen(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b.openapi)
	})))
	b.handle("GET /events", b.seen(http.HandlerFunc(b.events)))
	if b.Queue != nil {
		b.handle("GET /queue/", b.seen(b.queuePages()))
	}
	b.handle("GET /assets/{name}", http.HandlerFunc(asset))
	b.handle("GET /favicon.ico", http.RedirectHandler(assetURL("icon.svg"), http.StatusMovedPermanently))
	b.handle("GET /signin", http.HandlerFunc(b.signInPage))
	b.handle("POST /signin", http.HandlerFunc(b.signIn))
	b.handle("POST /signout", http.HandlerFunc(b.signOut))
	b.handle("/", b.seen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.fail(w, r, ErrUnknown) })))
}

func (b *Board) handle(pattern string, h http.Handler) {
	b.patterns = append(b.patterns, pattern)
	b.mux.Handle(pattern, h)
}

// Patterns returns the patterns of the board's mux.
func (b *Board) Patterns() []string { return slices.Clone(b.patterns) }
