package config

import (
	"net/url"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/extract/wire"
)

// Collector is a server to which the daemon sends traces or run events.
type Collector struct {
	At    Pos
	URL   string      // http or https, with an optional path
	Token wire.Secret // sent as a bearer token; "": none
}

func (r *reader) collector(n ast.Node, what string) *Collector {
	c := &Collector{At: posOf(n)}
	if _, block := r.resolve(n).(ast.MapNode); !block {
		c.URL = r.collectorURL(n, what)
		return c
	}
	ok := r.mapping(n, what, fields{
		"url":   func(n ast.Node) { c.URL = r.collectorURL(n, what+" url") },
		"token": func(n ast.Node) { c.Token = r.secret(n, what+" token") },
	})
	if ok {
		r.require(n, what, "url")
	}
	if u, err := url.Parse(c.URL); err == nil && u.Scheme == "http" && c.Token != "" && !isLoopback(u.Hostname()) {
		r.fault(c.At, "%s is http, which would send its token in clear text; use https, or http only for localhost", what)
	}
	return c
}

// collectorURL allows http even for other hosts, such as a collector in a private network: no credential of a
// source is sent there.
func (r *reader) collectorURL(n ast.Node, what string) string {
	s, ok := r.text(n, what)
	if !ok {
		return ""
	}
	u, err := url.Parse(strings.TrimSpace(s.value))
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		r.fault(s.at, "%s is not a URL; want for example http://127.0.0.1:4318", what)
		return ""
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		r.fault(s.at, "%s contains a user, a password or a query; put a credential under token", what)
		return ""
	}
	return strings.TrimRight(u.String(), "/")
}
