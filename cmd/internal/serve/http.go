package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"
)

// Handlers answer requests. One that is nil answers 404. Each finds the path as
// it was asked for.
type Handlers struct {
	Webhooks http.Handler // below /webhooks/, any method, however the path is written
	Health   http.Handler // GET /healthz and /readyz
	Metrics  http.Handler // GET /metrics
	Events   http.Handler // GET /events, which goes on until the client leaves and bounds each of its writes
	API      http.Handler // /api/v1/…
	Board    http.Handler // everything else
}

// How long a request may take, and how much of one there may be before its
// handler. Handlers bound bodies themselves.
const (
	headerTime  = 5 * time.Second
	requestTime = 30 * time.Second
	answerTime  = 60 * time.Second // Events sets its own
	idleTime    = 2 * time.Minute
	headerBytes = 32 << 10
)

// answer serves until ctx ends, and returns when no request is under way.
func (d *Daemon) answer(ctx context.Context) error {
	base, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	s := d.server(base)
	down := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(down)
		leave() // those who follow events would never leave
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerGrace)
		defer cancel()
		if s.Shutdown(grace) != nil {
			_ = s.Close() // whoever is still asking has had time
		}
	})
	err := s.Serve(&reportingListener{Listener: d.Listener, log: d.Log})
	if stop() {
		return err // it has met something by itself
	}
	<-down
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// server answers requests, whose contexts end with base.
func (d *Daemon) server(base context.Context) *http.Server {
	return &http.Server{
		Handler:           d.route(),
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       requestTime,
		WriteTimeout:      answerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerBytes,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(d.Log.Handler(), slog.LevelDebug),
	}
}

// Route is an entry of the daemon's mux.
type Route struct {
	Pattern string
	Handler http.Handler // nil: 404
	AnyHost bool         // whether it answers whatever host name a request has
}

// Routes are those of the daemon's mux. Deliveries below /webhooks/ do not pass it.
func (d *Daemon) Routes() []Route {
	h := d.Handlers
	return []Route{
		// Whoever watches a process asks by an address, or by a name that only its own
		// network knows. The answer tells nothing that another page could use.
		{"GET /healthz", h.Health, true},
		{"GET /readyz", h.Health, true},
		{"GET /metrics", h.Metrics, false},
		{"GET /events", endless(h.Events), false},
		{"/api/v1/", h.API, false},
		{"/", h.Board, false},
	}
}

// secure sets what holds for every answer, whoever makes it: no answer is a page that may
// load anything, be framed, kept or taken for another type. The dashboard's pages allow
// themselves their own style and script.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// route hands deliveries of webhooks on as they came. The mux would redirect a
// path with a slash too many, and senders take that for an end.
func (d *Daemon) route() http.Handler {
	m, webhooks := d.mux(), d.Handlers.Webhooks // whose signature says who asks
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if webhooks != nil && strings.HasPrefix(path.Clean("/"+r.URL.Path), "/webhooks/") {
			webhooks.ServeHTTP(w, r)
			return
		}
		m.ServeHTTP(w, r)
	})
}

func (d *Daemon) mux() http.Handler {
	m := http.NewServeMux()
	for _, r := range d.Routes() {
		h := r.Handler
		if h == nil {
			h = http.NotFoundHandler()
		}
		if !r.AnyHost {
			h = allowHosts(d.hosts, h)
		}
		m.Handle(r.Pattern, h)
	}
	return m
}

// endless frees a request of the deadlines of others: even the one for reading it
// would end a handler that goes on. The handler bounds each of its writes. One with
// a body keeps them: who announces what never comes would be waited for without
// end. // Invariant 15
func endless(h http.Handler) http.Handler {
	if h == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			c := http.NewResponseController(w)
			_ = errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{})) // without them it is asked for again
		}
		h.ServeHTTP(w, r)
	})
}

// SetHosts makes these the names that the daemon is reached by, from the next
// request on.
func (d *Daemon) SetHosts(names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = slices.Clone(names)
}

// hosts are the names that the daemon answers to.
func (d *Daemon) hosts() []string {
	d.mu.Lock()
	all := slices.Clone(d.names)
	d.mu.Unlock()
	if host, _, err := net.SplitHostPort(d.Listener.Addr().String()); err == nil {
		all = append(all, host)
	}
	return all
}

// allowHosts refuses requests that were made to a name which is not one of
// ours: a page of somebody else whose name is made to lead here would else have
// the rights of this machine's browser. An address is always ours, as nobody can
// make it lead anywhere; so is localhost.
func allowHosts(names func() []string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowedHost(names(), r.Host) {
			http.Error(w, "this name is not served here; `serve: {hosts: […]}` in the configuration lists those that are", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func allowedHost(names []string, asked string) bool {
	host := asked
	if h, _, err := net.SplitHostPort(asked); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		return true
	}
	return host != "" && slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, host) })
}
