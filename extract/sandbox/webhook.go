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

// Webhook is a subscription: every change of the data is announced to URL by a
// signed POST, as the platform's dashboard sets it up.
type Webhook struct {
	URL     string        `json:"url"`
	Secret  string        `json:"secret"`
	Scheme  Scheme        `json:"scheme,omitempty"`  // stripe unless set
	Header  string        `json:"header,omitempty"`  // with the signature; Service-Signature unless set
	Types   []string      `json:"types,omitempty"`   // globs of event types ("contact.*"); none: all
	Faults  WebhookFaults `json:"faults,omitzero"`   // what goes wrong between here and there
	Retries int           `json:"retries,omitempty"` // after 429, 5xx and no answer; 0 means 3, less than 0 none

	Backoff     Duration `json:"backoff,omitempty"`     // before the first retry, doubled by each next; 0 means 100ms
	Timeout     Duration `json:"timeout,omitempty"`     // of one attempt; 0 means 30s, as the platform's family has it
	Connections int      `json:"connections,omitempty"` // deliveries under way at once; 0 means 1, which keeps their order
}

// MaxBackoff bounds how long a retry waits.
const MaxBackoff = Duration(10 * time.Second)

// ErrNoWebhook says that there is no subscription of that number.
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

// wants reports whether the subscription is about events of the type.
func (w *Webhook) wants(kind string) bool {
	return len(w.Types) == 0 || slices.ContainsFunc(w.Types, func(glob string) bool { ok, _ := path.Match(glob, kind); return ok })
}

// hub knows who has subscribed and numbers what is announced.
type hub struct {
	mu     sync.Mutex
	seed   uint64
	made   int        // subscriptions so far
	random *rand.Rand // of event ids
	subs   []*subscription
}

func newHub(seed uint64) *hub {
	return &hub{seed: seed, random: rand.New(rand.NewPCG(seed, 13))}
}

// Subscribe announces every change from now on, and returns the subscription's
// number. Its sender runs until Unsubscribe or Close.
func (s *Server) Subscribe(w Webhook) (int, error) {
	if err := w.check(); err != nil {
		return 0, fmt.Errorf("subscribe: %w", err)
	}
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made++
	h.subs = append(h.subs, startSubscription(h.made, w, h.seed, s.options.Skew))
	return h.made, nil
}

// Unsubscribe ends a subscription and waits until nothing of it is under way.
// What was not delivered yet never will be.
func (s *Server) Unsubscribe(number int) error {
	sub, err := s.hub.take(number)
	if err != nil {
		return fmt.Errorf("unsubscribe: %w", err)
	}
	sub.stop()
	return nil
}

// Close ends all subscriptions. The server can be used on.
func (s *Server) Close() error {
	for _, sub := range s.hub.all() {
		// Somebody else may have ended it by now.
		if err := s.Unsubscribe(sub.number); err != nil && !errors.Is(err, ErrNoWebhook) {
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

// publish hands an event to whoever has subscribed to its type.
func (h *hub) publish(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, sub := range h.subs {
		if sub.wants(e.kind) {
			sub.announce(e)
		}
	}
}

// anyone reports whether an announcement would be heard.
func (h *hub) anyone() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs) > 0
}

// id makes the next event's id: the same sequence for the same seed.
func (h *hub) id() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return eventID(h.random)
}

// Deliveries is everything that the subscriptions of now were to deliver, in
// that order, and what came of it.
func (s *Server) Deliveries() []Delivery {
	var all []Delivery
	for _, sub := range s.hub.all() {
		all = append(all, sub.deliveries()...)
	}
	return all
}

// Drain lets go of what faults hold back and waits until nothing is left to
// deliver, retries included, or ctx ends.
func (s *Server) Drain(ctx context.Context) error {
	for _, sub := range s.hub.all() {
		if err := sub.drain(ctx); err != nil {
			return fmt.Errorf("drain webhooks: %w", err)
		}
	}
	return nil
}

// client sends deliveries: it keeps a connection for each that may be under way
// and follows nothing.
func (w *Webhook) client() *http.Client {
	return &http.Client{
		Timeout:       time.Duration(w.Timeout),
		Transport:     &http.Transport{MaxIdleConnsPerHost: w.Connections, MaxConnsPerHost: w.Connections, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
