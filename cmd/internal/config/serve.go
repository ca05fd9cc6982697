package config

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/extract/wire"
)

// ServeTLS is the TLS certificate of the daemon.
type ServeTLS struct {
	At        Pos
	Cert, Key string // PEM files
}

const unixPrefix = "unix:"

// Socket returns the path of the unix socket on which the daemon listens. It returns "" if the daemon listens on a
// port.
func (s Serve) Socket() string { return Socket(s.Listen) }

// Socket returns the path of the unix socket in an address such as unix:PATH. It returns "" if the address has a port.
func Socket(listen string) string {
	path, _ := strings.CutPrefix(listen, unixPrefix)
	if path == listen {
		return ""
	}
	return path
}

func readServe(v value) Serve {
	s := Serve{At: v.pos(), Listen: DefaultListen}
	var listen value
	v.mapping(fields{
		"listen":      func(v value) { listen = v; text(&s.Listen)(v) },
		"hosts":       set(&s.Hosts, hosts),
		"auth":        set(&s.Tokens, readServeAuth),
		"tls":         set(&s.TLS, readServeTLS),
		"otlp":        set(&s.OTLP, readCollector),
		"openlineage": set(&s.OpenLineage, readCollector),
	})
	if listen.given() {
		s.checkListen(listen, "serve listen", s.Listen, DefaultListen)
	}
	return s
}

// checkListen checks the address of the daemon or of a worker. Both addresses use the tokens and the certificate of s.
// The argument `what` is the address's name in messages, such as "serve listen".
func (s Serve) checkListen(v value, what, listen, preset string) {
	if strings.HasPrefix(listen, unixPrefix) {
		switch {
		case Socket(listen) == "":
			v.fault(v.pos(), "%s: want unix:PATH, such as unix:/run/penstock/penstock.sock", what)
		case s.TLS != nil:
			v.fault(s.TLS.At, "serve tls: a unix socket has no TLS; remove `tls`, and use TLS in the proxy that connects to the socket")
		}
		return
	}
	host, port, err := net.SplitHostPort(listen)
	p, perr := strconv.Atoi(port)
	switch {
	case err != nil || perr != nil || p < 0 || p >= 1<<16:
		v.fault(v.pos(), "%s: want host:port, such as %s, or unix:PATH", what, preset)
	case !isLoopback(host) && len(s.Tokens) == 0 && v.r.left == 0: // a token that the current command does not need may be missing
		v.fault(v.pos(), "%s is open to other machines, but serve auth has no token; want auth: {token: ${PENSTOCK_DASHBOARD_TOKEN}}, or listen: %s", what, preset)
	}
}

// Worker configures `penstock worker`. Its listener uses the tokens, the host names and the certificate of [Serve].
type Worker struct {
	At     Pos // zero if the file has no such section
	Listen string
}

func readWorker(v value, s Serve) Worker {
	w := Worker{At: v.pos(), Listen: DefaultWorkerListen}
	var listen value
	v.mapping(fields{"listen": func(v value) { listen = v; text(&w.Listen)(v) }})
	if listen.given() {
		s.checkListen(listen, "worker listen", w.Listen, DefaultWorkerListen)
	}
	return w
}

func readServeTLS(v value) *ServeTLS {
	t := &ServeTLS{At: v.pos()}
	v.mapping(fields{"cert": text(&t.Cert), "key": text(&t.Key)}, "cert", "key")
	return t
}

// Serve configures the daemon.
type Serve struct {
	At     Pos
	Listen string
	Hosts  []string     // host names that requests may use, in addition to localhost and IP addresses
	Tokens []ServeToken // for the dashboard, its API and metrics; if there are none, everyone on this machine has access
	TLS    *ServeTLS    // nil: no TLS

	OTLP        *Collector // where traces are sent; nil: the variables OTEL_… of the environment decide
	OpenLineage *Collector // where run events are sent; nil: nowhere
}

// ServeToken gives access to the dashboard and its API, or only to the metrics.
type ServeToken struct {
	Name   string // unique; shown in the log
	Secret wire.Secret
	Role   string // one of ServeRoles
}

// ServeRoles returns the roles of tokens. Each role includes the roles before it.
func ServeRoles() []string { return []string{"metrics", "read", "query", "operate"} }

// Collector is a server to which the daemon sends traces or run events.
type Collector struct {
	At    Pos
	URL   string      // http or https, with an optional path
	Token wire.Secret // sent as a bearer token; "": none
}

func readCollector(v value) *Collector {
	c := &Collector{At: v.pos()}
	if !v.isMapping() {
		c.URL = collectorURL(v)
		return c
	}
	v.mapping(fields{"url": set(&c.URL, collectorURL), "token": set(&c.Token, secret)}, "url")
	if u, err := url.Parse(c.URL); err == nil && u.Scheme == "http" && c.Token != "" && !isLoopback(u.Hostname()) {
		v.fault(c.At, "%s is http, which would send its token in clear text; use https, or http only for localhost", v.what)
	}
	return c
}

// collectorURL reads the URL of a collector. It allows http even for other hosts, such as a collector in a private
// network, because no credential of a source is sent there.
func collectorURL(v value) string {
	s, ok := v.text()
	if !ok {
		return ""
	}
	u, err := url.Parse(strings.TrimSpace(s.value))
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		v.fault(s.at, "%s is not a URL; want for example http://127.0.0.1:4318", v.what)
		return ""
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		v.fault(s.at, "%s contains a user, a password or a query; put a credential under `token`", v.what)
		return ""
	}
	return strings.TrimRight(u.String(), "/")
}
