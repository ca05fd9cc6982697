package wire

import (
	"net/http"
	"time"
)

// Attempt describes one request that was sent, without its parameters, header and body. Metrics and traces are made
// from it.
type Attempt struct {
	Method  string
	Path    string // the route's template
	Status  int    // 0 without an answer
	Sent    time.Time
	Elapsed time.Duration // until the answer was read or the request failed
}

func (k *call) attempted(sent time.Time, resp *http.Response) {
	if k.c.opts.Attempted == nil {
		return
	}
	a := Attempt{Method: k.method, Path: k.template, Sent: sent, Elapsed: time.Since(sent)}
	if resp != nil {
		a.Status = resp.StatusCode
	}
	k.c.opts.Attempted(a)
}
