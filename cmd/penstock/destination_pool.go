package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/load"
)

// destinationPool are the destinations that a daemon has open: a run, the webhook events
// beside it and the dashboard use one and the same. Two engines on one file would
// wait for each other, and who commits now and then would wait as long as somebody
// else commits all the time.
//
// They are safe for concurrent use; a nil *destinationPool shares nothing.
type destinationPool struct {
	mu  sync.Mutex
	all map[config.Destination]*pooledDestination
}

// pooledDestination is one destination, open while anybody has it.
type pooledDestination struct {
	mu   sync.Mutex
	uses int
	dest load.Destination
}

func newLends() *destinationPool {
	return &destinationPool{all: map[config.Destination]*pooledDestination{}}
}

// open is what open opens for d, or what somebody has opened already. It is to be
// closed by everybody who has it.
func (l *destinationPool) open(d config.Destination, open func() (load.Destination, error)) (load.Destination, error) {
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

func (l *destinationPool) of(d config.Destination) *pooledDestination {
	d.At = config.Pos{} // it is the same wherever it stands in the file
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[d] == nil {
		l.all[d] = &pooledDestination{}
	}
	return l.all[d]
}

// sharedDestination is a destination that others may have as well.
type sharedDestination struct {
	load.Destination
	from *pooledDestination
	once sync.Once
}

// Close gives it back; the last one who does closes it.
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

// Whole is the destination itself, whoever has it.
func (b *sharedDestination) Whole() load.Destination { return b.Destination }

// whole is the destination itself, whoever has it.
func whole(d load.Destination) load.Destination {
	if in, ok := d.(interface{ Whole() load.Destination }); ok {
		return whole(in.Whole())
	}
	return d
}

// sharedPart is a destination as a source sees it that shares its tables. It is
// closed with what it is a part of.
type sharedPart struct {
	load.Destination
	whole load.Destination
}

// Close gives the destination back.
func (s *sharedPart) Close() error { return s.whole.Close() }

// Whole is what it is a part of.
func (s *sharedPart) Whole() load.Destination { return s.whole }

// openPart opens the place of a source in a destination.
func (a *app) openPart(ctx context.Context, c *config.Config, d config.Destination, source string) (load.Destination, error) {
	dest, err := a.openDestination(ctx, c, d.For(source))
	if err != nil || !c.Shared(d) {
		return dest, err
	}
	part, err := load.Share(whole(dest), source)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open destination %s: %w", d.Name, err), dest.Close())
	}
	return &sharedPart{Destination: part, whole: dest}, nil
}
