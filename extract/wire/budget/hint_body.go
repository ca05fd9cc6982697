package budget

import (
	"encoding/json"
	"net/http"
	"strings"
)

// bodyHints returns what the body of a 429 states about the rate limit, in the form of headers. Some gateways copy
// headers into the JSON body. Some APIs state the wait only in the body.
func bodyHints(body []byte) http.Header {
	h := http.Header{}
	if len(body) > 0 && len(body) <= 64<<10 {
		gatherHints(h, body, 5)
	}
	return h
}

// gatherHints adds the hints among the members of a JSON object. It searches the given number of levels. If a name
// occurs on several levels, the outermost value counts.
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

// scalar returns the text of a JSON string, or a number as written.
func scalar(v json.RawMessage) string {
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text
	}
	return string(v)
}

// LearnBody learns from the body of a 429, after [Permit.Answered] has closed the gate. It can only make the wait
// longer. A number may be in milliseconds, so a number that is too large for a wait is ignored.
func (p *Permit) LearnBody(resp *http.Response, body []byte) {
	h := bodyHints(body)
	if len(h) == 0 {
		return
	}
	h["Date"] = resp.Header["Date"]
	p.tell(func(r *record) report {
		in := readHints(h, r.limit.window())
		wait := in.reset
		if in.hasRetry && in.retry <= longestReset {
			wait = in.retry
		}
		return report{outcome: asked, wait: min(wait, longestHint)}
	})
}
