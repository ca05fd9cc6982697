package wire

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// DefaultRedirect is the default redirect address. Any free port is used (RFC 8252, section 7.3).
const DefaultRedirect = "http://127.0.0.1/callback"

// RedirectFault returns why an address cannot be the redirect_uri of a sign-in, or "".
func RedirectFault(raw string) string {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.RawQuery != "":
		return "is not a plain URL without query and fragment"
	case u.Scheme == "https":
		return ""
	case u.Scheme != "http":
		return "has no http or https scheme"
	case !loopback(u.Hostname()):
		return "is http to another machine; a code would travel in clear text"
	}
	return ""
}

// listens reports whether penstock can listen on the redirect address. If not, a person has to paste the last address
// in the browser.
func (o *OAuth) listens() bool { return o.redirect.Scheme == "http" }

func (o *OAuth) redirectWords() string {
	if o.listens() && o.redirect.Port() == "" {
		return o.opts.RedirectURI + " (with any port)"
	}
	return o.opts.RedirectURI
}

// withRedirect adds the address that a person must register with the server.
func (o *OAuth) withRedirect(err error) error {
	return fmt.Errorf("%w; the redirect address to register for client %s is %s", err, o.opts.ClientID, o.redirectWords())
}

// listenFor listens on the redirect address. For localhost, it listens on IPv4 and IPv6, because browsers use either.
func listenFor(redirect *url.URL) ([]net.Listener, *url.URL, error) {
	at, port := *redirect, orDefault(redirect.Port(), "0")
	host := redirect.Hostname()
	network, ip := "tcp4", "127.0.0.1"
	if parsed := net.ParseIP(host); parsed != nil {
		ip = parsed.String()
		if parsed.To4() == nil {
			network = "tcp6"
		}
	}
	l, err := net.Listen(network, net.JoinHostPort(ip, port))
	if err != nil {
		return nil, nil, fmt.Errorf("listen for the browser: %w", err)
	}
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, nil, fmt.Errorf("listen for the browser: %w", err)
	}
	all := []net.Listener{l}
	if strings.EqualFold(host, "localhost") {
		if six, err := net.Listen("tcp6", net.JoinHostPort("::1", port)); err == nil {
			all = append(all, six)
		}
	}
	at.Host = net.JoinHostPort(host, port)
	return all, &at, nil
}
