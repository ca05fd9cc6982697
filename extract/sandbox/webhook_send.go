package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// subscription delivers events to one subscriber. The method announce() plans the deliveries, and run() sends them.
type subscription struct {
	Webhook
	number int
	skew   time.Duration // how far the platform's clock is ahead
	client *http.Client
	cancel context.CancelFunc
	ended  sync.WaitGroup
	wake   chan struct{} // holds an element if there may be new work

	mu      sync.Mutex
	random  *rand.Rand
	placed  int
	log     []*plannedDelivery
	ready   []*plannedDelivery
	held    []*plannedDelivery // deliveries that the fault reorder holds back until later events; at most Faults.Window
	timed   schedule           // delayed deliveries and retries, waiting for their due time
	pending int                // deliveries that have no final outcome yet
}

func startSubscription(number int, w Webhook, seed uint64, skew time.Duration) *subscription {
	ctx, cancel := context.WithCancel(context.Background())
	s := &subscription{
		Webhook: w, number: number, skew: skew, client: w.client(), cancel: cancel, wake: make(chan struct{}, 1),
		random: rand.New(rand.NewPCG(seed, 100+uint64(number))),
	}
	out := make(chan *plannedDelivery)
	s.ended.Go(func() { s.run(ctx, out) })
	for range w.Connections {
		s.ended.Go(func() {
			for p := range out {
				s.attempt(ctx, p)
			}
		})
	}
	return s
}

func (s *subscription) stop() {
	s.cancel()
	s.ended.Wait()
	s.client.CloseIdleConnections()
}

func (s *subscription) announce(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placed++
	for _, p := range s.Faults.plan(s.random, e, s.placed, time.Now()) {
		p.Webhook = s.number
		s.log = append(s.log, p)
		if p.Done {
			continue
		}
		s.pending++
		switch {
		case p.place == never:
			s.timed.add(p)
		case p.place > s.placed:
			s.held = append(s.held, p)
		default:
			s.ready = append(s.ready, p)
		}
	}
	s.release(func(p *plannedDelivery) bool { return p.place <= s.placed })
	s.wakeRun()
}

func (s *subscription) release(allowed func(*plannedDelivery) bool) {
	s.held = slices.DeleteFunc(s.held, func(p *plannedDelivery) bool {
		if allowed(p) {
			s.ready = append(s.ready, p)
			return true
		}
		return false
	})
}

func (s *subscription) wakeRun() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscription) run(ctx context.Context, out chan<- *plannedDelivery) {
	defer close(out)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, wait := s.next(time.Now())
		to := out
		if next == nil {
			to = nil
		}
		timer.Reset(wait)
		select {
		case to <- next:
			s.sent()
		case <-s.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *subscription) next(now time.Time) (*plannedDelivery, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(func(p *plannedDelivery) bool { return !p.due.After(now) })
	for p := s.timed.first(); p != nil && !p.due.After(now); p = s.timed.first() {
		s.ready = append(s.ready, s.timed.take())
	}
	wait := time.Hour
	for _, p := range s.held {
		wait = min(wait, p.due.Sub(now))
	}
	if p := s.timed.first(); p != nil {
		wait = min(wait, p.due.Sub(now))
	}
	if len(s.ready) == 0 {
		return nil, wait
	}
	return s.ready[0], wait
}

// The method sent() removes the first ready delivery. Only run() calls it.
func (s *subscription) sent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready[0] = nil
	s.ready = s.ready[1:]
}

func (s *subscription) attempt(ctx context.Context, p *plannedDelivery) {
	start := time.Now()
	status, err := s.post(ctx, p, start.Add(s.skew))
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Attempts++
	p.At, p.Took, p.Status, p.Error = start, Duration(time.Since(start)), status, ""
	if err != nil {
		p.Error = err.Error()
	}
	again := err != nil || status >= 500 || status == http.StatusTooManyRequests
	switch {
	case status >= 200 && status < 300:
		p.Acknowledged, p.Done = true, true
	case again && p.Attempts <= s.Retries && ctx.Err() == nil:
		wait := min(s.Backoff<<min(p.Attempts-1, 16), MaxBackoff)
		p.due = time.Now().Add(time.Duration(wait))
		s.timed.add(p)
		s.wakeRun()
		return
	default:
		p.Done = true
	}
	s.pending--
	p.body = nil
}

func (s *subscription) post(ctx context.Context, p *plannedDelivery, now time.Time) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(p.body))
	if err != nil {
		return 0, fmt.Errorf("post webhook: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	signed := p.body
	if p.Kind == DeliveredForged {
		signed = append(slices.Clone(p.body), ' ')
	}
	s.sign(r.Header, p.Event, now, signed)
	answer, err := s.client.Do(r)
	if err != nil {
		return 0, fmt.Errorf("post webhook: %w", err)
	}
	defer answer.Body.Close()
	// The body does not matter. But if it is read, the connection can be used again.
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10))
	if err != nil && answer.StatusCode >= 300 {
		return 0, fmt.Errorf("post webhook: %w", err)
	}
	return answer.StatusCode, nil
}

func (s *subscription) drain(ctx context.Context) error {
	s.mu.Lock()
	s.release(func(*plannedDelivery) bool { return true })
	s.timed.hasten(time.Now(), func(p *plannedDelivery) bool { return p.Attempts == 0 })
	s.mu.Unlock()
	s.wakeRun()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for s.backlog() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *subscription) backlog() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending
}

func (s *subscription) deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Delivery, len(s.log))
	for i, p := range s.log {
		all[i] = p.Delivery
	}
	return all
}
