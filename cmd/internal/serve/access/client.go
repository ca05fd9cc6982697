package access

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// forwarding are the header fields that proxies set.
var forwarding = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}

// Forwarded reports whether a request says that a proxy sent it.
func Forwarded(r *http.Request) bool {
	for _, name := range forwarding {
		if len(r.Header.Values(name)) > 0 {
			return true
		}
	}
	return false
}

// Encrypted reports whether the client reached the daemon, or the proxy in front
// of it, with TLS.
func Encrypted(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	proto, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	if strings.EqualFold(strings.TrimSpace(proto), "https") {
		return true
	}
	first, _, _ := strings.Cut(r.Header.Get("Forwarded"), ",")
	for part := range strings.SplitSeq(first, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if strings.EqualFold(name, "proto") && strings.EqualFold(strings.Trim(value, `"`), "https") {
			return true
		}
	}
	return false
}

// From is where a request came from, for people: the address of the connection,
// and what the proxy says.
func From(r *http.Request) string {
	from := r.RemoteAddr
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	if from == "" || from == "@" {
		from = "unix socket"
	}
	if said := lastForwarded(r); said != "" {
		from += " for " + said
	}
	return from
}

// lastForwarded is the address that the nearest proxy added, as text of bounded
// length. The fields before it are the client's own words.
func lastForwarded(r *http.Request) string {
	values := r.Header.Values("X-Forwarded-For")
	if len(values) == 0 {
		return ""
	}
	all := strings.Split(values[len(values)-1], ",")
	ip, err := netip.ParseAddr(strings.TrimSpace(all[len(all)-1]))
	if err != nil {
		return ""
	}
	return ip.Unmap().WithZone("").String()
}

// client tells requesters apart for limits. All connections of this machine that
// no proxy made are one client; of IPv6 a whole network is one.
type client struct {
	peer, behind netip.Prefix
	forwarded    bool
}

// local is the client that is this machine itself.
var local = client{}

func clientOf(r *http.Request) client {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	c := client{forwarded: Forwarded(r)}
	ip, err := netip.ParseAddr(host)
	switch direct := err != nil || ip.IsLoopback(); {
	case direct && !c.forwarded:
		return local
	case err == nil:
		c.peer = prefixOf(ip)
	}
	// A proxy is on this machine or on a private network. A client that pretends to
	// be one is still bound by the limit of all clients together.
	if c.forwarded && (err != nil || ip.IsLoopback() || ip.IsPrivate()) {
		if ip, err := netip.ParseAddr(lastForwarded(r)); err == nil {
			c.behind = prefixOf(ip)
		}
	}
	return c
}

// Client names the requester as bounds tell requesters apart.
func Client(r *http.Request) string {
	switch c := clientOf(r); {
	case c == local:
		return "local"
	case c.behind.IsValid():
		return c.behind.String()
	default:
		return c.peer.String()
	}
}

// prefixOf is what one client may have of addresses: of IPv6 a whole network.
func prefixOf(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits)
	return p
}
