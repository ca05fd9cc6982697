// Package pipeline executes one run of a pipeline, from a source to its destinations. It reads the streams in
// parallel and commits each group of pages together with the position after it. At the end of a pass it decides what
// the pass has proven, and records that in tables of its own in each destination.
//
// It sends no HTTP requests, executes no SQL and reads no configuration file. An error or a panic of one stream ends
// only that stream and is reported in the [Report]. The error that Run returns concerns the run itself.
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

	"github.com/penstock-data/penstock/cmd/internal/pipeline/forecast"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Source yields pages, as *extract.Client does. Pages may be called again for a stream whose pass has ended or
// was given up, and concurrently for different streams.
type Source interface {
	Pages(ctx context.Context, s schemas.Stream, from state.Cursor) iter.Seq2[extract.Page, error]
}

// Destination is a load.Destination with its name in the configuration.
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

// Config configures a run.
type Config struct {
	Name string // name of the pipeline
	Run  string // id of the run, see package runid; "": a new one

	Source       Source
	Destinations []Destination
	Streams      []schemas.Stream // parents before their children
	Log          map[string]bool  // streams whose row changes are recorded in _penstock_changes

	// OwnOrigin names the streams that have an origin or a credential of their own, instead of those of their surface.
	OwnOrigin map[string]bool

	// Origins maps stream names to the origin that each stream is read from. A destination stores the origin with its
	// tables, and refuses a pass from another origin.
	Origins map[string]load.Origin

	// Files maps destinations to the folder where files of records are stored. A destination without a folder stores
	// only the rows about files.
	Files map[string]string

	// Catalogue contains the streams that request one record of a list, for a Source that implements RecordSource. With
	// such a stream, penstock can confirm that a missing record is gone and delete its row, even if the list proves
	// nothing. It may be nil.
	Catalogue []schemas.Stream

	Workers    int     // streams read concurrently; 0: DefaultWorkers
	ByteBudget int64   // bytes of records between source and commit, over all streams; 0: DefaultByteBudget
	Budget     *Budget // shared with other runs of this process; nil: a new one of ByteBudget
	GroupBytes int64   // approximate bytes of rows per commit; 0: DefaultGroupBytes
	GroupRows  int     // rows per commit, exceeded by up to one page; 0: a default, for destinations that state no preference

	// Locks is shared with the Deltas of the pipeline in this process; nil if there is none.
	Locks *overlay.Locks

	Options  Options
	Forecast *forecast.Forecast // the expected cost of the run; nil: unknown
	Progress func(Event)        // called with each event, from many goroutines; may be nil

	// Now returns the time for rows, certificates and reports. Processes that share the state must use the same clock:
	// see [state.Store]. If Now is nil, the clock of this machine is used.
	Now func() time.Time

	limits      limits // limits of batches and groups; zero: defaultLimits
	withoutRule string // the rule of proof that a test disables; "" for none
}

// Options change what one run does. The zero value is a scheduled run.
type Options struct {
	Full          bool // read every stream from its beginning, ignoring an unfinished pass
	ConfirmShrink bool // a person confirms deletions that need it: see package proof
	DryRun        bool // read and map, but write nothing

	Backfill *Backfill // the range to read instead of changes; nil for a scheduled run
}

// Run reads every stream of c once and returns when all of its goroutines have ended. When ctx is cancelled, it
// finishes or rolls back open commits within ten seconds. If [Stop] made the cause of the cancellation, the report's
// ExitCode is the exit code for that signal. The error concerns the run itself; errors of single streams are in the
// report.
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

type run struct {
	Config
	started      time.Time
	seed         maphash.Seed
	budget       *Budget
	gates        map[schemas.Surface]*surfaceGate
	runs         []*runRow
	requestCount atomic.Int64
	memory       map[string]Memories // what the destinations stored before the run, by destination

	reports []StreamReport

	settled map[string]bool // destinations in which an earlier run has ended

	health   *health
	verdicts *verdicts
	twins    twins

	mu        sync.Mutex
	rejectsOf map[string]*rejectIndex
}

// hash returns a hasher for the digests of this run.
func (r *run) hash() *rowhash.Hasher { return &rowhash.Hasher{Seed: r.seed} }

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
	r := &run{Config: c, started: c.Now(), seed: maphash.MakeSeed(), health: newHealth(), verdicts: newVerdicts(), twins: twins{shown: map[string]*rowhash.Digest{}},
		memory: map[string]Memories{}, settled: map[string]bool{}, rejectsOf: map[string]*rejectIndex{}}
	r.Streams = slices.Clone(c.Streams)
	for i := range r.Streams {
		r.Streams[i].Table.Mode = r.Streams[i].Table.Mode.Or(schemas.Merge)
	}
	r.Run = cmp.Or(c.Run, runid.New(r.started))
	r.Workers = cmp.Or(c.Workers, DefaultWorkers)
	if r.budget = c.Budget; r.budget == nil {
		r.budget = NewBudget(cmp.Or(c.ByteBudget, DefaultByteBudget))
	}
	r.limits = cmp.Or(c.limits, defaultLimits)
	r.limits.groupBytes = cmp.Or(c.GroupBytes, r.limits.groupBytes)
	r.limits.groupRows = cmp.Or(c.GroupRows, r.limits.groupRows)
	r.limits.batchBytes = min(r.limits.batchBytes, r.limits.groupBytes/4) // each group leaves room for a whole batch
	r.limits.patience = cmp.Or(r.limits.patience, defaultLimits.patience)
	r.limits.keySlots = cmp.Or(r.limits.keySlots, defaultLimits.keySlots)
	r.gates = newGates(c.Streams, c.OwnOrigin)
	return r, nil
}

// streams reads all streams. A child stream first waits for its parent and only then takes a worker slot. So waiting
// children never block their parents.
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
			parent = nil // the parent comes later in the list, or is not in it
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
			r.NoMorePasses(s)
		})
	}
	wg.Wait()
	for _, rs := range reports {
		r.reports = append(r.reports, rs...)
	}
}
