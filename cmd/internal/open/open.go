// Package open opens what a configuration describes: sources, destinations, the state and its locks.
package open

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock-data/penstock/extract/wire/budget"
)

// Opener opens what a configuration describes. Its exported fields are set before use.
type Opener struct {
	File      string // configuration file
	Kinds     Kinds  // kinds of destinations
	UserAgent string // user agent of requests to sources
	Log       *slog.Logger
	Context   context.Context                                              // ends when the process is stopped; nil: a context that never ends
	Attempted func(source, surface string, status int, took time.Duration) // called after each request to a source; may be nil

	Locks    PipelineLocks      // locks of the pipelines that this process works on
	Pool     *DestinationPool   // destinations that parts of this process share; nil if each opens its own
	ReadOnly bool               // this process changes no destination: files are opened only for reading
	Life     time.Duration      // how long leases and units live without renewal; 0 for the default
	As       Host               // for tests: the host that this process claims to run on; zero for the real one
	Step     func(string) error // called at each step of a commit. Tests end the process there
	Warned   sync.Map           // warnings about the rights of database roles that were already logged

	Connections Connections // limits the connections to servers of Postgres

	stores    stores           // open state stores
	governors budget.Governors // governors of the accounts of sources
	heap      heapUse          // the runs that decide the size of the heap
	outputs   outputs          // of the commands of the configuration
}

// processContext returns a context that ends when the process is stopped. Reading a configuration needs such a
// context, because it may run commands and query databases. // Invariant 15
func (o *Opener) processContext() context.Context {
	if o.Context == nil {
		return context.Background()
	}
	return o.Context
}

// Close closes the state stores, and what destinations share. All destinations must already be closed.
func (o *Opener) Close() error {
	for _, k := range o.Kinds {
		if k.Close != nil {
			k.Close()
		}
	}
	return o.stores.close()
}
