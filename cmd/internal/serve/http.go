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

// Handlers serve the routes of the daemon. For a nil handler, the response is 404. A handler gets the path
// unchanged.
type Handlers struct {
	Webhooks  http.Handler // paths below /webhooks/, any method; the path may have double slashes
	Health    http.Handler // GET /healthz and /readyz
	Metrics   http.Handler // GET /metrics
	Events    http.Handler // GET /events; it runs until the client disconnects, and must set a deadline for each of its writes
	API       http.Handler // /api/v1/…
	Assistant http.Handler // /mcp
	Board     http.Handler // everything else
}

// Limits of a request. Handlers limit bodies themselves.
const (
	headerTime  = 5 * time.Second
	requestTime = 30 * time.Second
	answerTime  = 60 * time.Second // does not apply to Handlers.Events
	idleTime    = 2 * time.Minute
	headerBytes = 32 << 10
)

func (d *Daemon) answer(ctx context.Context) error {
	base, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	s := d.server(base)
	down := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(down)
		leave() // ends the responses of Handlers.Events, which would never end by themselves
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerGrace)
		defer cancel()
		if s.Shutdown(grace) != nil {
			_ = s.Close()
		}
	})
	err := s.Serve(&reportingListener{Listener: d.Listener, log: d.Log})
	if stop() {
		return err
	}
	<-down
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// server returns the HTTP server. The contexts of its requests end when the context base ends.
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

// Route is a route of the daemon's mux.
type Route struct {
	Pattern string
	Handler http.Handler // nil: 404
	AnyHost bool         // requests with any Host header are accepted
}

// Routes returns the routes of the daemon's mux. Deliveries to /webhooks/ bypass it.
func (d *Daemon) Routes() []Route {
	h := d.Handlers
	return []Route{
		// Load balancers request these paths at an IP address, or at a name that only the local network knows. The
		// response contains nothing that a page of another site could use.
		{"GET /healthz", h.Health, true},
		{"GET /readyz", h.Health, true},
		{"GET /metrics", h.Metrics, false},
		{"GET /events", endless(h.Events), false},
		{"/api/v1/", h.API, false},
		{"/mcp", h.Assistant, false},
		{"/", h.Board, false},
	}
}

// secure sets the security headers of a response. With these headers, the response cannot load anything, be framed, be
// cached, or be interpreted as another type. The dashboard allows its own styles and scripts in addition.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// route returns the handler of all requests. Webhook deliveries do not go through the mux: it would redirect a
// path with double slashes, and senders treat a redirect as a permanent failure.
func (d *Daemon) route() http.Handler {
	m, webhooks := d.mux(), d.Handlers.Webhooks // deliveries are authenticated by their signature
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

// endless returns a handler without deadlines for responses that have no end, such as live updates. The handler h must
// set a deadline for each of its writes. A request with a body keeps its deadlines: otherwise the server would wait
// forever for a body that never arrives. // Invariant 15
func endless(h http.Handler) http.Handler {
	if h == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			c := http.NewResponseController(w)
			_ = errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{})) // if this fails, the deadline ends the response, and the client connects again
		}
		h.ServeHTTP(w, r)
	})
}

// SetHosts replaces the allowed host names. The change applies from the next request on.
func (d *Daemon) SetHosts(names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = slices.Clone(names)
}

func (d *Daemon) hosts() []string {
	d.mu.Lock()
	all := slices.Clone(d.names)
	d.mu.Unlock()
	if host, _, err := net.SplitHostPort(d.Listener.Addr().String()); err == nil {
		all = append(all, host)
	}
	return all
}

// allowHosts refuses requests with other host names, against DNS rebinding: a site could make its own name
// resolve to this machine, and its pages could then use the dashboard through a visitor's browser. IP addresses
// and localhost are always allowed, because no site can make them resolve to this machine.
func allowHosts(names func() []string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowedHost(names(), r.Host) {
			http.Error(w, "host name not allowed; add it to `serve: {hosts: […]}` in the configuration", http.StatusForbidden)
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
