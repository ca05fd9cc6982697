package sandbox

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/penstock-data/penstock/extract/sandbox/servers"
	"github.com/penstock-data/penstock/schemas"
)

// Server is one sandbox. It is safe for concurrent use.
type Server struct {
	*hub
	options   Options
	start     time.Time
	catalogue *schemas.Catalogue
	routes    router
	endpoints map[string]*endpoint // by "METHOD /path"
	writes    map[string]write     // by "METHOD /path"
	streams   map[string]schemas.Stream
	tokens    *tokens
	grants    *grants
	counter   *counter
	faults    *faults
	v2Limit   *limiter
	appLimit  *limiter
	contacts  *contacts // nil if Options.Contacts is 0
	drift     *rand.Rand
	announced map[string]*announcement // by table
	lists     map[string]*servers.List // by name

	mu    sync.RWMutex
	world *world

	cacheMu sync.Mutex
	cache   map[*endpoint]rendered
}

type rendered struct {
	version uint64
	items   []item
}

// Reset restores the seeded data. Tokens, limits and statistics do not change.
func (s *Server) Reset() {
	w := newWorld(s.options.Seed, s.options.Scale)
	w.truncate(s.options.MaxRows)
	w.onChange = func(table, action string, row object) { s.notify(w, table, action, row) }
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.world != nil {
		w.version = s.world.version + 1
	}
	s.world = w
	s.cacheMu.Lock()
	defer s.cacheMu.Unlock()
	s.cache = map[*endpoint]rendered{}
}

// newWorld returns the data. Tables that grow with a company have scale times as many rows. Tables like pipelines,
// stages and taxes do not grow.
func newWorld(seed uint64, scale int) *world {
	w := &world{tables: map[string]*table{}}
	b := &builder{w: w, seed: seed, scale: scale}
	b.people()
	b.crm()
	b.products()
	b.accounting()
	b.sales()
	b.documents()
	b.payments()
	b.projects()
	b.support()
	b.hr()
	b.payroll()
	b.versioned()
	return w
}
