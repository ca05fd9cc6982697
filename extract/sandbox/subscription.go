package sandbox

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"time"
)

// Webhook is a subscription. The sandbox sends every change of the data to URL in a signed POST, like the platform.
type Webhook struct {
	URL     string        `json:"url"`
	Secret  string        `json:"secret"`
	Scheme  Scheme        `json:"scheme,omitempty"`  // default stripe
	Header  string        `json:"header,omitempty"`  // header of the signature; default Service-Signature
	Types   []string      `json:"types,omitempty"`   // globs of event types ("contact.*"); empty: all
	Faults  WebhookFaults `json:"faults,omitzero"`   // faults of the delivery
	Retries int           `json:"retries,omitempty"` // number of retries after a 429, a 5xx or no answer; 0 means 3, negative means none

	Backoff     Duration `json:"backoff,omitempty"`     // wait before the first retry; it doubles for each further retry; 0 means 100ms
	Timeout     Duration `json:"timeout,omitempty"`     // timeout of one attempt; 0 means 30s
	Connections int      `json:"connections,omitempty"` // concurrent deliveries; 0 means 1; with 1, deliveries arrive in order
}

// MaxBackoff limits the wait before a retry.
const MaxBackoff = Duration(10 * time.Second)

func (w *Webhook) check() error {
	u, err := url.Parse(w.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("webhook url %q: want http:// or https:// and a host", w.URL)
	}
	w.Scheme = cmp.Or(w.Scheme, Stripe)
	if err := w.Scheme.check(w.Secret); err != nil {
		return err
	}
	for _, glob := range w.Types {
		if _, err := path.Match(glob, ""); err != nil {
			return fmt.Errorf("webhook types %q: %w", glob, err)
		}
	}
	if w.Connections < 0 || w.Connections > 1024 {
		return fmt.Errorf("webhook connections %d: want 1 to 1024", w.Connections)
	}
	w.Connections, w.Retries = cmp.Or(w.Connections, 1), cmp.Or(w.Retries, 3)
	w.Backoff = cmp.Or(w.Backoff, Duration(100*time.Millisecond))
	w.Timeout = cmp.Or(w.Timeout, Duration(30*time.Second))
	return w.Faults.check()
}

func (w *Webhook) wants(kind string) bool {
	return len(w.Types) == 0 || slices.ContainsFunc(w.Types, func(glob string) bool { ok, _ := path.Match(glob, kind); return ok })
}

// client returns an HTTP client with one connection per concurrent delivery. It follows no redirects.
func (w *Webhook) client() *http.Client {
	return &http.Client{
		Timeout:       time.Duration(w.Timeout),
		Transport:     &http.Transport{MaxIdleConnsPerHost: w.Connections, MaxConnsPerHost: w.Connections, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
