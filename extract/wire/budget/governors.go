package budget

import "sync"

// Governors holds the open governors of a process, one for each budget. All parts of the process that use a budget
// share its governor. They count as one member of the budget record. Their requests are sent in order of arrival.
//
// The zero value is empty. Governors is safe for concurrent use.
type Governors struct {
	mu  sync.Mutex
	all map[string]*sharedGovernor
}

// sharedGovernor is a governor and the number of its users.
type sharedGovernor struct {
	users int // protected by Governors.mu

	mu sync.Mutex // held while the governor is opened
	g  *Governor  // nil until opened
}

// Open returns the governor of the named budget. If a governor is already open for this name, Open returns that
// governor, and lowers its limit if the limit of g is lower. Otherwise Open calls share(), which connects g with other
// processes, and then returns g. The caller must call close() after its last request has ended. When all callers have
// done so, the governor is closed.
func (gs *Governors) Open(name string, g *Governor, share func(*Governor) error) (shared *Governor, close func() error, err error) {
	gs.mu.Lock()
	if gs.all == nil {
		gs.all = map[string]*sharedGovernor{}
	}
	t := gs.all[name]
	if t == nil {
		t = &sharedGovernor{}
		gs.all[name] = t
	}
	t.users++
	gs.mu.Unlock()
	if shared, err = t.open(g, share); err != nil {
		_ = gs.release(name, t) // release would return the same error
		return nil, nil, err
	}
	return shared, sync.OnceValue(func() error { return gs.release(name, t) }), nil
}

func (t *sharedGovernor) open(g *Governor, share func(*Governor) error) (*Governor, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.g != nil {
		return t.g, t.g.applyLimit(g.plan)
	}
	if err := share(g); err != nil {
		return nil, err
	}
	t.g = g
	return g, nil
}

// release ends one use of t. While the governor is being closed, another caller may open a new governor. The record
// counts the two as two members.
func (gs *Governors) release(name string, t *sharedGovernor) error {
	gs.mu.Lock()
	t.users--
	last := t.users == 0
	if last {
		delete(gs.all, name)
	}
	gs.mu.Unlock()
	if !last || t.g == nil {
		return nil
	}
	return t.g.Close()
}

// applyLimit applies the limit of p, if it is lower than the present limit.
func (g *Governor) applyLimit(p Plan) error {
	mine := newLimitEstimate(p)
	return g.with(func(r *record, _ instant) bool {
		if planned := newLimitEstimate(g.plan); mine.tighter(&planned) {
			g.plan, g.joined = p, g.joined && g.fleet == nil // the next exchange applies p in the ledger
		}
		return r.applyLimit(mine)
	})
}
