package wire

import (
	"net/http"
	"time"
)

// Attempt is one request that went out, as metrics and traces see it: without
// parameters, header and body.
type Attempt struct {
	Method  string
	Path    string // the route's template
	Status  int    // 0: no answer came
	Sent    time.Time
	Elapsed time.Duration // until the answer had been read, or did not come
}

// attempted tells whoever asked to know of a request that went out.
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
