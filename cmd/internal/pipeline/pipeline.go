// Package pipeline is one run of a pipeline: the loop from a source to its
// destinations. It reads the streams in parallel, gathers their pages into
// groups, commits each group with the position after it, decides at the end of
// a pass what that pass has proven, and keeps the record of all this in the
// destination's own tables.
//
// It knows neither HTTP nor SQL, neither schedules nor configuration files:
// a source yields pages, a destination takes batches, and [Run] stands between.
// What one stream meets (an error, a module that is switched off, a panic) ends
// that stream alone and is a value in the [Report]; an error of Run is the
// run's own.
package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Source is where pages come from; *extract.Client is one. Pages may be called
// again for a stream whose pass has ended or was given up, and for different
// streams at once.
type Source interface {
	Pages(ctx context.Context, s schemas.Stream, from state.Cursor) iter.Seq2[extract.Page, error]
}

// Destination is a load.Destination and the name the configuration gives it.
type Destination struct {
	Name string
	load.Destination
}

// Defaults of a Config.
const (
	DefaultWorkers    = 8
	DefaultByteBudget = 192 << 20
	DefaultGroupBytes = 72 << 20
)

// Config says what a run reads and where it lands.
type Config struct {
	Name string // of the pipeline
	Run  string // id of the run, see NewRunID; "" makes one

	Source       Source
	Destinations []Destination
	Streams      []schemas.Stream // a parent before its children
	Log          map[string]bool  // streams, by name, whose row changes are kept in _penstock_changes

	// Apart are the streams, by name, that are not read from their surface: they have an
	// origin or a credential of their own.
	Apart map[string]bool

	// Origins are where the streams are read from, by name. A destination records them
	// with the tables, and refuses another.
	Origins map[string]load.Origin

	// Files is the folder, by destination, in which the files of streams of files
	// are kept. A destination without one has the rows about them alone.
	Files map[string]string

	// Catalogue is where the stream is found that gives one record of a list,
	// for a Source that is an Asker: with it, the rows that a list lacks can be
	// deleted although the list proves nothing. It may be nil.
	Catalogue []schemas.Stream

	Workers    int     // streams read at once; 0: DefaultWorkers
	ByteBudget int64   // bytes of records between source and commit, over all streams; 0: DefaultByteBudget
	Budget     *Budget // shared with other runs of this process; nil: one of ByteBudget of its own
	GroupBytes int64   // bytes of rows that one commit holds, more or less; 0: DefaultGroupBytes
	GroupRows  int     // rows that one commit holds, or a page more; 0: what suits destinations that have no wish

	// Turns are shared with the Deltas of the pipeline in this process; nil where
	// it has none.
	Turns *StreamLocks

	Options  Options
	Forecast *Forecast   // what the run is expected to take; nil: nothing is
	Progress func(Event) // told what happens, from many goroutines; may be nil

	// Now is the time of day that rows, certificates and reports bear, the same for all
	// that share the state: see [state.Store]. nil is this machine's.
	Now func() time.Time

	limits      limits // of batches and groups; zero: defaultLimits
	withoutRule string // the rule of proof that does not apply, in tests that show what it is for; "" for all
}

// Options change what one run does. The zero value is a run as scheduled.
type Options struct {
	Full          bool // read every stream from its beginning, whatever an unfinished pass has left
	ConfirmShrink bool // let a proven pass delete more than the brake allows
	DryRun        bool // read and map, touch no destination

	Backfill *Backfill // read history instead of what has changed; nil for a run as scheduled
}

// Run reads every stream of c once and returns when nothing of it is under
// way any more. When ctx is cancelled it finishes or gives up the commits that
// are open, within ten seconds; with a cause made by [Stop] the report's
// ExitCode is the signal's. The error is what kept the run itself from its
// work; what single streams met stands in the report.
func Run(ctx context.Context, c Config) (Report, error) {
	r, err := newRun(c)
	if err != nil {
		return Report{Status: StatusFailed}, err
	}
	if err := r.open(ctx); err != nil {
		return r.finish(ctx, fmt.Errorf("start run: %w", err))
	}
	r.recall(ctx)
	r.streams(ctx)
	return r.finish(ctx, r.refused())
}

// run is a Run under way.
type run struct {
	Config
	started time.Time
	seed    maphash.Seed
	budget  *Budget
	gates   map[schemas.Surface]*surfaceGate
	runs    []*runRow
	asked   atomic.Int64        // requests
	memory  map[string]Memories // by destination, as the run has found them

	reports []StreamReport // in the order of Streams and Destinations

	mu      sync.Mutex
	proof   lists              // see proofOf
	shown   map[string]*digest // see show
	down    map[string]error   // destinations that are left out of the run, and why
	absent  map[string]int     // see heard
	settled map[string]bool    // destinations that a run has come to its end with before
	lost    map[string]bool    // see hopeless

	rejectsOf map[string]*rejectIndex // by destination
}

func newRun(c Config) (*run, error) {
	switch {
	case c.Name == "":
		return nil, errors.New("run pipeline: no name")
	case c.Source == nil:
		return nil, errors.New("run pipeline: no source")
	case len(c.Destinations) == 0 && !c.Options.DryRun:
		return nil, errors.New("run pipeline: no destination")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	r := &run{Config: c, started: c.Now(), seed: maphash.MakeSeed(), down: map[string]error{}, absent: map[string]int{}, memory: map[string]Memories{}, settled: map[string]bool{}, lost: map[string]bool{}, rejectsOf: map[string]*rejectIndex{}, shown: map[string]*digest{}}
	r.Streams = slices.Clone(c.Streams)
	for i := range r.Streams {
		r.Streams[i].Table.Mode = r.Streams[i].Table.Mode.Or(schemas.Merge)
	}
	r.proof = lists{verdict: map[string]Verdict{}, own: map[[2]string]Verdict{}, held: map[[2]string]bool{}}
	r.Run = cmp.Or(c.Run, NewRunID(r.started))
	r.Workers = cmp.Or(c.Workers, DefaultWorkers)
	if r.budget = c.Budget; r.budget == nil {
		r.budget = NewBudget(cmp.Or(c.ByteBudget, DefaultByteBudget))
	}
	r.limits = cmp.Or(c.limits, defaultLimits)
	r.limits.groupBytes = cmp.Or(c.GroupBytes, r.limits.groupBytes)
	r.limits.groupRows = cmp.Or(c.GroupRows, r.limits.groupRows)
	r.limits.batchBytes = min(r.limits.batchBytes, r.limits.groupBytes/4) // room is kept for a whole batch
	r.limits.patience = cmp.Or(r.limits.patience, defaultLimits.patience)
	r.limits.compared = cmp.Or(r.limits.compared, defaultLimits.compared)
	r.limits.keySlots = cmp.Or(r.limits.keySlots, defaultLimits.keySlots)
	r.gates = newGates(c.Streams, c.Apart)
	return r, nil
}

// streams reads all streams and returns when each has its report. A child
// waits for its parent before it takes a worker, so that waiting children can
// never keep the parents from running.
func (r *run) streams(ctx context.Context) {
	workers := semaphore.NewWeighted(int64(r.Workers))
	done := make(map[string]chan struct{}, len(r.Streams))
	reports := make([][]StreamReport, len(r.Streams))
	var wg sync.WaitGroup
	for _, s := range r.Streams {
		done[s.Name] = make(chan struct{})
	}
	begun := map[string]bool{}
	for i, s := range r.Streams {
		parent, twin, own := done[s.Parent], done[s.Twin], done[s.Name]
		if !begun[s.Parent] {
			parent = nil // it comes later in the list, or is not in it
		}
		begun[s.Name] = true
		wg.Go(func() {
			defer close(own)
			for _, before := range []chan struct{}{parent, twin} {
				if before != nil {
					<-before
				}
			}
			if workers.Acquire(ctx, 1) == nil {
				defer workers.Release(1)
			}
			reports[i] = r.stream(ctx, s)
			r.ended(s)
		})
	}
	wg.Wait()
	for _, rs := range reports {
		r.reports = append(r.reports, rs...)
	}
}
