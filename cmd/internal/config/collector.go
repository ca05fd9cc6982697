package config

import (
	"net/url"
	"strings"

	"github.com/penstock-data/penstock/extract/wire"
)

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

// collectorURL allows http even for other hosts, such as a collector in a private network: no credential of a
// source is sent there.
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
		v.fault(s.at, "%s contains a user, a password or a query; put a credential under token", v.what)
		return ""
	}
	return strings.TrimRight(u.String(), "/")
}
