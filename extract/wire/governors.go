package wire

import "sync"

// Governors are those that a process has open: one for each budget, however many
// of its parts spend it. So they take one place among the processes that share
// the budget, and their requests go out in the order in which they came.
//
// The zero value has none. It is safe for concurrent use.
type Governors struct {
	mu  sync.Mutex
	all map[string]*sharedGovernor
}

// sharedGovernor is a governor and how many have it.
type sharedGovernor struct {
	users int // guarded by the lock of Governors

	mu sync.Mutex // while it is opened
	g  *Governor  // nil: not yet
}

// Open gives the governor of the budget called name: the one that is open, which
// from now on keeps g's limit as well, the lower of two; or else g itself, which
// share makes one with those of other processes. close is to be called once no
// request of the caller's is under way; the last to do so closes the governor.
func (gs *Governors) Open(name string, g *Governor, share func(*Governor) error) (common *Governor, close func() error, err error) {
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
	if common, err = t.open(g, share); err != nil {
		_ = gs.leave(name, t) // what it says of the same file was said already
		return nil, nil, err
	}
	return common, sync.OnceValue(func() error { return gs.leave(name, t) }), nil
}

func (t *sharedGovernor) open(g *Governor, share func(*Governor) error) (*Governor, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.g != nil {
		return t.g, t.g.heed(g.plan)
	}
	if err := share(g); err != nil {
		return nil, err
	}
	t.g = g
	return g, nil
}

// leave is the end of one that has t. Who comes while the last one closes it gets
// another, as another process would.
func (gs *Governors) leave(name string, t *sharedGovernor) error {
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

// heed keeps another limit as well, where that is the lower one.
func (g *Governor) heed(b Budget) error {
	mine := newCeiling(b.Rate, b.Reserve)
	return g.with(func(held *budgetRecord, _ instant) bool {
		if planned := newCeiling(g.plan.Rate, g.plan.Reserve); mine.tighter(&planned) {
			g.plan = b
		}
		c := &held.ceiling
		if c.asked == mine.asked && c.reserve == mine.reserve || !mine.tighter(c) {
			return false
		}
		*c = mine
		return true
	})
}
