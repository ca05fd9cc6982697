package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"time"
)

// WebhookStatus is the state of a subscription.
type WebhookStatus struct {
	Number       int      `json:"webhook"`
	URL          string   `json:"url"`
	Scheme       Scheme   `json:"scheme"`
	Events       int      `json:"events"`       // number of events
	Deliveries   int      `json:"deliveries"`   // planned deliveries, including lost ones
	Lost         int      `json:"lost"`         // deliveries that a fault prevented
	Pending      int      `json:"pending"`      // deliveries that have no final outcome yet
	Acknowledged int      `json:"acknowledged"` // deliveries that were answered 2xx
	Refused      int      `json:"refused"`      // deliveries whose last answer had another status
	GivenUp      int      `json:"given_up"`     // deliveries without an answer to the last attempt
	Attempts     int      `json:"attempts"`
	Median       Duration `json:"median"` // median time until a 2xx
	P99          Duration `json:"p99"`
	Slowest      Duration `json:"slowest"`
}

// Webhooks returns the state of each subscription.
func (h *hub) Webhooks() []WebhookStatus {
	all := []WebhookStatus{}
	for _, sub := range h.all() {
		all = append(all, sub.status())
	}
	return all
}

func (s *subscription) status() WebhookStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := WebhookStatus{Number: s.number, URL: s.URL, Scheme: s.Scheme, Events: s.placed, Deliveries: len(s.log), Pending: s.pending}
	var took []Duration
	for _, p := range s.log {
		st.Attempts += p.Attempts
		switch {
		case p.Kind == DeliveredLost:
			st.Lost++
		case p.Acknowledged:
			st.Acknowledged++
			took = append(took, p.Took)
		case p.Done && p.Status != 0:
			st.Refused++
		case p.Done:
			st.GivenUp++
		}
	}
	if n := len(took); n > 0 {
		slices.Sort(took)
		st.Median, st.P99, st.Slowest = took[n/2], took[n*99/100], took[n-1]
	}
	return st
}

const maxDrain = 5 * time.Minute

func (s *Server) controlWebhooks(w http.ResponseWriter, r *http.Request, what string) {
	switch key := r.Method + " " + what; key {
	case "GET ":
		writeJSON(w, s.Webhooks(), nil)
	case "POST ":
		var ask Webhook
		number, err := 0, json.NewDecoder(r.Body).Decode(&ask)
		if err == nil {
			number, err = s.Subscribe(ask)
		}
		writeJSON(w, map[string]int{"webhook": number}, err)
	case "DELETE ":
		writeJSON(w, []WebhookStatus{}, s.Close())
	case "GET /log":
		s.writeLog(w, r)
	case "POST /drain":
		ctx, cancel := context.WithTimeout(r.Context(), maxDrain)
		defer cancel()
		err := s.Drain(ctx)
		writeJSON(w, s.Webhooks(), err)
	case "POST /flood":
		var ask Flood
		var report FloodReport
		err := json.NewDecoder(r.Body).Decode(&ask)
		if err == nil {
			report, err = s.Flood(r.Context(), ask)
		}
		writeJSON(w, report, err)
	default:
		number, err := strconv.Atoi(path.Base(key))
		if r.Method != http.MethodDelete || err != nil {
			http.NotFound(w, r)
			return
		}
		err = s.Unsubscribe(number)
		writeJSON(w, s.Webhooks(), err)
	}
}

func (h *hub) writeLog(w http.ResponseWriter, r *http.Request) {
	want := r.URL.Query().Get("acknowledged")
	if _, err := strconv.ParseBool(want); want != "" && err != nil {
		writeJSON(w, nil, fmt.Errorf("acknowledged: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := json.NewEncoder(w)
	for _, d := range h.Deliveries() {
		if want != "" && want != strconv.FormatBool(d.Acknowledged) {
			continue
		}
		if lines.Encode(d) != nil {
			return
		}
	}
}
