package wire

import (
	"encoding/json"
	"net/http"
	"strings"
)

// bodyHints finds what the body of a 429 tells about the limit: gateways pass on
// there, as members of some object, the headers of the server behind them, and
// some APIs say nowhere else how long to wait. It is empty where there is none.
func bodyHints(body []byte) http.Header {
	h := http.Header{}
	if len(body) > 0 && len(body) <= 64<<10 {
		gatherHints(h, body, 5)
	}
	return h
}

// gatherHints adds the hints among the members of a JSON object, and of those in
// it, down to depth levels. What is told on an outer level stands.
func gatherHints(h http.Header, v json.RawMessage, depth int) {
	var object map[string]json.RawMessage
	if depth == 0 || json.Unmarshal(v, &object) != nil {
		return
	}
	for name, v := range object {
		name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		if isHint(name) && h.Get(name) == "" {
			h.Set(name, scalar(v))
		}
	}
	for _, v := range object {
		gatherHints(h, v, depth-1)
	}
}

func isHint(name string) bool {
	return name == "Retry-After" || strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Ratelimit-") || strings.HasPrefix(name, "X-Rate-Limit-")
}

// scalar is a JSON string's text or a number as it is written.
func scalar(v json.RawMessage) string {
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text
	}
	return string(v)
}

// told learns from the body of an answer 429. It comes after [slot.answered],
// which has closed the gate: the wait can only become longer. A number in a body
// may as well be milliseconds, so that one too large for a wait says nothing.
func (s *slot) told(resp *http.Response, body []byte) {
	h := bodyHints(body)
	if len(h) == 0 {
		return
	}
	h["Date"] = resp.Header["Date"]
	_ = s.g.with(func(b *budgetRecord, now instant) bool {
		_, window := b.ceiling.allowed()
		in := readHints(h, window)
		wait := in.reset
		if in.hasRetry && in.retry <= longestReset {
			wait = in.retry
		}
		b.gate.extend(now.add(min(wait, longestHint)), tooMany)
		return true
	})
}
