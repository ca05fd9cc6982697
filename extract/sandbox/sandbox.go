// Package sandbox is a small copy of the platform, for tests, demos and benchmarks. It serves both surfaces over real
// HTTP: seeded records, the platform's mix of envelopes and pagers, credentials, limits, writes that change the data,
// and faults on demand. The packages that read from the sandbox share only package schemas with it, so a bug in these
// packages is rarely also in the sandbox.
//
// A table of endpoints (endpoints_*.go) says which rows each endpoint serves, which members it shows (see view), and
// its envelope and pager. Truth returns the records that a complete reading of a stream must give. It uses the same
// rows, but no pages.
//
//	s, err := sandbox.New(sandbox.Options{Seed: 1})
//	http.ListenAndServe("127.0.0.1:8787", s)
package sandbox

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/penstock-data/penstock/extract/sandbox/servers"
	"github.com/penstock-data/penstock/schemas"
)

// Options configure a sandbox. The zero value configures the sandbox of the demo.
type Options struct {
	Seed     uint64 // seed of all data; 0 means 1
	Scale    int    // multiplies the lists that grow with a company; 0 means 1
	MaxRows  int    // maximum number of rows per table; 0: no limit
	Contacts int    // if not 0, GET /v2/contacts serves this many of the benchmark's contacts: see WriteContactsNDJSON

	Plan     string    // plan on the versioned surface: free, pro (default), business, agency
	Rate     int       // requests per second on the versioned surface; 0: as in the plan
	AppRate  Rate      // limit on the application surface; zero: 200 requests per second
	Counting Counting  // how both limits count requests; default sliding
	NoLimits bool      // no rate limits
	Reset    ResetUnit // unit of X-RateLimit-Reset

	Latency time.Duration // delay before each answer
	Skew    time.Duration // how far the server's clock is ahead
	Gzip    bool          // compress answers for clients that accept it
	Faults  []Fault
	Modules map[string]bool // false: the module is not part of the plan

	Lists []servers.Named // served under ListsPath, in addition to the platform
}

// New creates a sandbox and its data.
func New(o Options) (*Server, error) {
	catalogue, err := schemas.Load()
	if err != nil {
		return nil, fmt.Errorf("new sandbox: %w", err)
	}
	rate, err := planRate(o.Plan)
	if err != nil {
		return nil, fmt.Errorf("new sandbox: %w", err)
	}
	if err := o.Counting.valid(); err != nil {
		return nil, fmt.Errorf("new sandbox: %w", err)
	}
	o.defaults()
	s := &Server{
		options: o, start: time.Now(), catalogue: catalogue,
		endpoints: map[string]*endpoint{}, streams: map[string]schemas.Stream{}, writes: writeTable(),
		tokens: newTokens(), grants: newGrants(), counter: newCounter(), faults: newFaults(o.Seed),
		v2Limit: newLimiter(rate, o.Counting), appLimit: newLimiter(o.AppRate, o.Counting),
		drift: rand.New(rand.NewPCG(o.Seed, 11)), hub: newHub(o.Seed, o.Skew), announced: announcements(),
		lists: map[string]*servers.List{},
	}
	s.addLists(o.Lists)
	s.SetRate(o.Rate)
	if o.NoLimits {
		s.v2Limit.set(Rate{})
		s.appLimit.set(Rate{})
	}
	if err := s.SetFaults(o.Faults...); err != nil {
		return nil, fmt.Errorf("new sandbox: %w", err)
	}
	if o.Contacts > 0 {
		s.contacts = newContacts(o.Seed, o.Contacts)
	}
	s.register()
	s.Reset()
	return s, nil
}

func (o *Options) defaults() {
	if o.Seed == 0 {
		o.Seed = 1
	}
	o.Scale = max(o.Scale, 1)
	if o.AppRate == (Rate{}) {
		o.AppRate = Rate{Requests: 200, Window: time.Second}
	}
}

func (s *Server) register() {
	for _, stream := range s.catalogue.Streams() {
		route := stream.Method + " " + stream.Path
		s.routes.add(route)
		s.streams[route] = stream
	}
	for _, e := range endpointTable() {
		e.compile()
		s.endpoints[e.route] = e
	}
}

// SetRate changes the limit of the versioned surface. 0 restores the limit of the plan.
func (s *Server) SetRate(perSecond int) {
	rate, _ := planRate(s.options.Plan)
	if perSecond > 0 {
		rate.Requests = perSecond
	}
	s.v2Limit.set(rate)
}

var _ http.Handler = (*Server)(nil)
