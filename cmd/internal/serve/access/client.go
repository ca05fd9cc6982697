package access

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

var forwarding = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}

// Forwarded reports whether a proxy has passed on the request, according to its headers.
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

// From describes for a person where a request comes from: the address of the connection, and the address that a
// proxy reports.
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

// lastForwarded returns the last address in X-Forwarded-For, which the nearest proxy has added. The client itself
// may have written the addresses before it.
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

// client identifies a sender for limits. Direct connections from this machine are one client. The addresses of an
// IPv6 /64 network are one client too.
type client struct {
	peer, behind netip.Prefix // addresses of the connection, and of the sender that a proxy reports
	forwarded    bool         // a proxy on this machine or on a private network sent the request
}

var local = client{}

func clientOf(r *http.Request) client {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	ip, err := netip.ParseAddr(host)
	here := err != nil || ip.IsLoopback() // the address of a unix socket cannot be parsed
	// Only a proxy on this machine or on a private network counts as a proxy. A client on a private network may
	// pretend to be a proxy, but the shared limit of unknown clients still applies to this client.
	c := client{forwarded: Forwarded(r) && (here || ip.IsPrivate())}
	if here && !c.forwarded {
		return local
	}
	if err == nil {
		c.peer = prefixOf(ip)
	}
	if c.forwarded {
		if ip, err := netip.ParseAddr(lastForwarded(r)); err == nil {
			c.behind = prefixOf(ip)
		}
	}
	return c
}

// Client returns a name of the client that sent r, for limits per client.
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

func prefixOf(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits)
	return p
}
