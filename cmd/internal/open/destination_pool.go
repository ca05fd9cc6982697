package open

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/load"
)

// DestinationPool shares a daemon's open destinations between its runs, webhook events and dashboard. Otherwise
// each would open the same file with its own database engine. The engines would wait for each other's locks, and
// an engine that commits rarely might never get the lock.
//
// It is safe for concurrent use. A nil *DestinationPool shares nothing.
type DestinationPool struct {
	mu  sync.Mutex
	all map[config.Destination]*pooledDestination
}

// pooledDestination is one destination, open while it has users.
type pooledDestination struct {
	mu   sync.Mutex
	uses int
	dest load.Destination
}

// NewDestinationPool returns an empty pool.
func NewDestinationPool() *DestinationPool {
	return &DestinationPool{all: map[config.Destination]*pooledDestination{}}
}

// open returns a handle of the destination that d configures. If the pool does not have this destination yet, it opens
// the destination with the given function. Each caller must close its handle.
func (l *DestinationPool) open(d config.Destination, open func() (load.Destination, error)) (load.Destination, error) {
	if l == nil {
		return open()
	}
	e := l.of(d)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.uses == 0 {
		dest, err := open()
		if err != nil {
			return nil, err
		}
		e.dest = dest
	}
	e.uses++
	return &sharedDestination{Destination: e.dest, from: e}, nil
}

func (l *DestinationPool) of(d config.Destination) *pooledDestination {
	d.At = config.Pos{} // a destination that has moved within the configuration file is still the same destination
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[d] == nil {
		l.all[d] = &pooledDestination{}
	}
	return l.all[d]
}

// sharedDestination is one user's handle of a pooled destination.
type sharedDestination struct {
	load.Destination
	from *pooledDestination
	once sync.Once
}

// Close releases the handle. Closing the last handle closes the destination.
func (b *sharedDestination) Close() (err error) {
	b.once.Do(func() {
		b.from.mu.Lock()
		defer b.from.mu.Unlock()
		if b.from.uses--; b.from.uses == 0 {
			err = b.from.dest.Close()
		}
	})
	return err
}

// Pooled returns the pooled destination.
func (b *sharedDestination) Pooled() load.Destination { return b.Destination }

// Whole returns the destination that d belongs to, if d is a handle or a part of it. Otherwise it returns d.
func Whole(d load.Destination) load.Destination {
	if in, ok := d.(interface{ Pooled() load.Destination }); ok {
		return Whole(in.Pooled())
	}
	return d
}

// sharedPart is one source's view of a destination whose tables several sources share. Closing it closes the
// destination.
type sharedPart struct {
	load.Destination
	whole load.Destination
}

// Close closes the destination.
func (s *sharedPart) Close() error { return s.whole.Close() }

// Pooled returns the whole destination, from which this part was taken.
func (s *sharedPart) Pooled() load.Destination { return s.whole }

// Part returns the part of the source.
func (s *sharedPart) Part() load.Destination { return s.Destination }

// Part opens the part of a source in a destination.
func (o *Opener) Part(ctx context.Context, c *config.Config, d config.Destination, source string) (load.Destination, error) {
	dest, err := o.Destination(ctx, c, d.For(source))
	if err != nil || !c.Shared(d) {
		return dest, err
	}
	part, err := load.Share(Whole(dest), source)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open destination %s: %w", d.Name, err), dest.Close())
	}
	return &sharedPart{Destination: part, whole: dest}, nil
}
