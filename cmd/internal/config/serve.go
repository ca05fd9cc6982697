package config

import (
	"net"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// ServeTLS is the TLS certificate of the daemon.
type ServeTLS struct {
	At        Pos
	Cert, Key string // PEM files
}

const unixPrefix = "unix:"

// Socket returns the path of the unix socket on which the daemon listens; "" if it listens on a port.
func (s Serve) Socket() string {
	path, _ := strings.CutPrefix(s.Listen, unixPrefix)
	if path == s.Listen {
		return ""
	}
	return path
}

func (r *reader) serve(n ast.Node) Serve {
	s := Serve{At: posOf(n), Listen: DefaultListen}
	var at Pos
	r.mapping(n, "serve", fields{
		"listen": func(n ast.Node) {
			if v, ok := r.text(n, "serve listen"); ok {
				s.Listen, at = v.value, v.at
			}
		},
		"hosts":       func(n ast.Node) { s.Hosts = r.hosts(n, "serve hosts") },
		"auth":        func(n ast.Node) { s.Tokens = r.serveAuth(n) },
		"tls":         func(n ast.Node) { s.TLS = r.serveTLS(n) },
		"otlp":        func(n ast.Node) { s.OTLP = r.collector(n, "serve otlp") },
		"openlineage": func(n ast.Node) { s.OpenLineage = r.collector(n, "serve openlineage") },
	})
	r.checkListen(s, at)
	return s
}

func (r *reader) checkListen(s Serve, at Pos) {
	if strings.HasPrefix(s.Listen, unixPrefix) {
		switch {
		case s.Socket() == "":
			r.fault(at, "serve listen: want unix:PATH, such as unix:/run/penstock/penstock.sock")
		case s.TLS != nil:
			r.fault(s.TLS.At, "serve tls: a unix socket has no TLS; the proxy in front of it does")
		}
		return
	}
	host, port, err := net.SplitHostPort(s.Listen)
	p, perr := strconv.Atoi(port)
	switch {
	case err != nil || perr != nil || p < 0 || p >= 1<<16:
		r.fault(at, "serve listen: want host:port, such as %s, or unix:PATH", DefaultListen)
	case !isLoopback(host) && len(s.Tokens) == 0:
		r.fault(at, "serve listen is open to other machines, but serve auth has no token; want auth: {token: ${PENSTOCK_DASHBOARD_TOKEN}}, or listen: %s", DefaultListen)
	}
}

func (r *reader) serveTLS(n ast.Node) *ServeTLS {
	t := &ServeTLS{At: posOf(n)}
	path := func(what string, to *string) func(ast.Node) {
		return func(n ast.Node) {
			if v, ok := r.text(n, what); ok {
				*to = v.value
			}
		}
	}
	if r.mapping(n, "serve tls", fields{"cert": path("serve tls cert", &t.Cert), "key": path("serve tls key", &t.Key)}) {
		r.require(n, "serve tls", "cert", "key")
	}
	return t
}
