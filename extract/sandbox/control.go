package sandbox

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// control serves the requests with which tests control the sandbox:
//
//	GET    /_sandbox/stats              Stats; DELETE clears them
//	GET    /_sandbox/truth/{stream}     Truth as one JSON array
//	POST   /_sandbox/faults             replaces all faults by a JSON list of Fault; DELETE removes them
//	POST   /_sandbox/lists              starts the next run of the named lists: see Options.Lists
//	GET    /_sandbox/lists/{name}       the records that a run may find in this list, as a servers.Truth
//	POST   /_sandbox/reset              restores the seeded data
//	POST   /_sandbox/touch              {"fraction":0.1}: changes this share of the records
//	POST   /_sandbox/rate               {"v2":50,"app":20}: changes the limits, in requests a second
//	POST   /_sandbox/expire             expires all issued tokens; they can be refreshed
//	POST   /_sandbox/revoke             ends all issued tokens
//	GET    /_sandbox/contacts.ndjson    ?n=100: the first 100 of the benchmark's contacts, as JSON lines
//	POST   /_sandbox/webhooks           subscribes to changes with a Webhook; DELETE ends all subscriptions
//	GET    /_sandbox/webhooks           the WebhookStatus of each subscription
//	DELETE /_sandbox/webhooks/{number}  ends one subscription
//	GET    /_sandbox/webhooks/log       each Delivery as a JSON line; ?acknowledged=true: only deliveries that were answered 2xx
//	POST   /_sandbox/webhooks/drain     answers when all deliveries have ended
//	POST   /_sandbox/webhooks/flood     starts a Flood, and answers when it has ended
func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	what := strings.TrimPrefix(r.URL.Path, "/_sandbox/")
	stream, isTruth := strings.CutPrefix(what, "truth/")
	if under, ok := strings.CutPrefix(what, "webhooks"); ok {
		s.controlWebhooks(w, r, under)
		return
	}
	list := s.lists[strings.TrimPrefix(what, "lists/")]
	switch key := r.Method + " " + what; {
	case key == "POST lists":
		writeJSON(w, map[string]int{"lists": s.nextRun()}, nil)
	case r.Method == http.MethodGet && list != nil:
		writeJSON(w, list.Truth(), nil)
	case key == "GET stats":
		writeJSON(w, s.Stats(), nil)
	case key == "DELETE stats":
		s.ResetStats()
		writeJSON(w, s.Stats(), nil)
	case r.Method == http.MethodGet && isTruth:
		records, err := s.Truth(stream)
		if records == nil {
			records = []json.RawMessage{}
		}
		writeJSON(w, records, err)
	case key == "POST faults":
		var list []Fault
		err := json.NewDecoder(r.Body).Decode(&list)
		if err == nil {
			err = s.SetFaults(list...)
		}
		writeJSON(w, list, err)
	case key == "DELETE faults":
		writeJSON(w, []Fault{}, s.SetFaults())
	case key == "POST reset":
		s.Reset()
		writeJSON(w, s.Stats(), nil)
	case key == "POST touch":
		var ask struct{ Fraction float64 }
		err := json.NewDecoder(r.Body).Decode(&ask)
		writeJSON(w, map[string]int{"touched": s.Touch(ask.Fraction)}, err)
	case key == "POST expire":
		writeJSON(w, map[string]int{"expired": s.tokens.expire()}, nil)
	case key == "POST revoke":
		writeJSON(w, map[string]int{"revoked": s.tokens.revoke()}, nil)
	case key == "POST rate":
		s.controlRate(w, r)
	case key == "GET contacts.ndjson" && s.contacts != nil:
		n, err := strconv.Atoi(r.URL.Query().Get("n"))
		if err != nil {
			n = s.options.Contacts
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		_ = s.WriteContactsNDJSON(w, n)
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) controlRate(w http.ResponseWriter, r *http.Request) {
	var ask struct{ V2, App int }
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		writeJSON(w, nil, err)
		return
	}
	if ask.V2 > 0 {
		s.SetRate(ask.V2)
	}
	if ask.App > 0 {
		s.appLimit.set(Rate{Requests: ask.App, Window: time.Second})
	}
	writeJSON(w, ask, nil)
}

func writeJSON(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		v = map[string]string{"error": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(v)
}
