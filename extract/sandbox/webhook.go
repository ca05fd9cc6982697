package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// ErrNoWebhook says that no subscription has this number.
var ErrNoWebhook = errors.New("no such webhook")

// hub contains all subscriptions.
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

// Drain waits until all deliveries and retries have ended, or until ctx ends. It also sends the deliveries that faults
// hold back.
func (h *hub) Drain(ctx context.Context) error {
	for _, sub := range h.all() {
		if err := sub.drain(ctx); err != nil {
			return fmt.Errorf("drain webhooks: %w", err)
		}
	}
	return nil
}
