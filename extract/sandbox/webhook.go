package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path"
	"slices"
	"sync"
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
	Retries int           `json:"retries,omitempty"` // number of retries after 429, 5xx and no answer; 0 means 3, negative means none

	Backoff     Duration `json:"backoff,omitempty"`     // wait before the first retry; it doubles for each further one; 0 means 100ms
	Timeout     Duration `json:"timeout,omitempty"`     // timeout of one attempt; 0 means 30s
	Connections int      `json:"connections,omitempty"` // concurrent deliveries; 0 means 1; with 1, deliveries arrive in order
}

// MaxBackoff limits the wait before a retry.
const MaxBackoff = Duration(10 * time.Second)

// ErrNoWebhook says that no subscription has this number.
var ErrNoWebhook = errors.New("no such webhook")

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

// hub has the subscriptions.
type hub struct {
	mu     sync.Mutex
	seed   uint64
	skew   time.Duration // how far the server's clock is ahead
	made   int           // number of the last subscription
	random *rand.Rand    // source of event ids
	subs   []*subscription
}

func newHub(seed uint64, skew time.Duration) *hub {
	return &hub{seed: seed, skew: skew, random: rand.New(rand.NewPCG(seed, 13))}
}

// Subscribe starts a subscription and returns its number. It delivers changes until Unsubscribe or Close.
func (h *hub) Subscribe(w Webhook) (int, error) {
	if err := w.check(); err != nil {
		return 0, fmt.Errorf("subscribe: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made++
	h.subs = append(h.subs, startSubscription(h.made, w, h.seed, h.skew))
	return h.made, nil
}

// Unsubscribe ends a subscription. It waits for the deliveries under way, and drops the others.
func (h *hub) Unsubscribe(number int) error {
	sub, err := h.take(number)
	if err != nil {
		return fmt.Errorf("unsubscribe: %w", err)
	}
	sub.stop()
	return nil
}

// Close ends all subscriptions. The server itself continues.
func (h *hub) Close() error {
	for _, sub := range h.all() {
		// Another goroutine may have ended the subscription.
		if err := h.Unsubscribe(sub.number); err != nil && !errors.Is(err, ErrNoWebhook) {
			return err
		}
	}
	return nil
}

func (h *hub) all() []*subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.subs)
}

func (h *hub) take(number int) (*subscription, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, sub := range h.subs {
		if sub.number == number {
			h.subs = slices.Delete(h.subs, i, i+1)
			return sub, nil
		}
	}
	return nil, fmt.Errorf("%w: %d", ErrNoWebhook, number)
}

func (h *hub) publish(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, sub := range h.subs {
		if sub.wants(e.kind) {
			sub.announce(e)
		}
	}
}

func (h *hub) hasSubscribers() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs) > 0
}

func (h *hub) id() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return eventID(h.random)
}

// Deliveries returns all deliveries of the current subscriptions with their outcomes, in the planned order.
func (h *hub) Deliveries() []Delivery {
	var all []Delivery
	for _, sub := range h.all() {
		all = append(all, sub.deliveries()...)
	}
	return all
}

// Drain sends deliveries that faults hold back. It waits until all deliveries and retries have ended, or ctx ends.
func (h *hub) Drain(ctx context.Context) error {
	for _, sub := range h.all() {
		if err := sub.drain(ctx); err != nil {
			return fmt.Errorf("drain webhooks: %w", err)
		}
	}
	return nil
}

// client returns an HTTP client with one connection per concurrent delivery. It follows no redirects.
func (w *Webhook) client() *http.Client {
	return &http.Client{
		Timeout:       time.Duration(w.Timeout),
		Transport:     &http.Transport{MaxIdleConnsPerHost: w.Connections, MaxConnsPerHost: w.Connections, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
