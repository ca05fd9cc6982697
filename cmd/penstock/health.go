package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
)

// healthTime is the timeout of the health request.
const healthTime = 4 * time.Second

// printHealth prints the health of the daemon that uses this configuration. It fails if the daemon is not healthy or
// does not respond.
func printHealth(ctx context.Context, a *app) error {
	c, err := a.open.LoadDestinations()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, healthURL(c.Serve), nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: healthTransport(c.Serve)}
	resp, err := client.Do(r)
	if err != nil {
		return failure.Hinted(fmt.Errorf("request health of %s: %w", c.Serve.Listen, err), "is `penstock serve` running, with this configuration?")
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("request health of %s: %w", c.Serve.Listen, err)
	}
	if _, err := fmt.Fprintln(a.out, strings.TrimSpace(string(text))); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return failure.Exit(failure.ExitFailed)
	}
	return nil
}

// healthURL returns the health address of the daemon on this machine.
func healthURL(s config.Serve) string {
	switch {
	case s.Socket() != "":
		return "http://localhost/healthz"
	case s.TLS != nil:
		return "https://" + loopback(s.Listen) + "/healthz"
	}
	return "http://" + loopback(s.Listen) + "/healthz"
}

// healthTransport connects to the daemon on this machine, without a proxy. It does not verify the daemon's
// certificate, because the certificate names the public host, not localhost. The request contains no secret.
func healthTransport(s config.Serve) http.RoundTripper {
	t := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	if path := s.Socket(); path != "" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	return t
}

// loopback returns an address at which this machine reaches a listener. If the listener listens on all addresses, this
// is the loopback address.
func loopback(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		host = "127.0.0.1"
		if a.Is6() {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}
