package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/forecast"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

type run struct {
	Config
	started      time.Time
	seed         maphash.Seed
	forecast     *forecast.Forecast // nil: unknown
	budget       *Budget
	queue        *settleQueue
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

type runRow struct {
	dest    Destination
	stored  state.Cursor
	ended   int64
	before  string           // id of the previous run; "" if there is none
	attempt string           // id of the attempt at the run; "" for the first attempt
	earlier *earlierAttempts // earlier attempts at this run; nil: none
	removed *removed         // what this run has removed; nil if nothing
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
	r.limits.batchBytes = min(r.limits.batchBytes, r.limits.groupBytes/4) // a batch takes at most a quarter of a group
	r.limits.patience = cmp.Or(r.limits.patience, defaultLimits.patience)
	r.limits.keySlots = cmp.Or(r.limits.keySlots, defaultLimits.keySlots)
	r.gates = newGates(c.Streams, c.OwnOrigin)
	return r, nil
}

func (r *run) emit(e Event) {
	if r.Progress != nil {
		r.Progress(e)
	}
}

func (r *run) gateOf(s schemas.Stream) *surfaceGate {
	if r.OwnOrigin[s.Name] {
		return nil
	}
	return r.gates[s.Surface]
}

// recall reads what the destinations store about the streams. It leaves out a destination that fails: without that
// destination's stored conventions, the run would probe every stream again.
func (r *run) recall(ctx context.Context) {
	if r.Options.DryRun {
		return
	}
	for _, d := range r.Destinations {
		if r.health.leftOut(d.Name) != nil {
			continue
		}
		all, err := Recall(ctx, stored(d.Destination), r.Name)
		if err != nil {
			r.health.leaveOut(d.Name, fmt.Errorf("destination %s: %w", d.Name, err))
			continue
		}
		r.memory[d.Name] = all
	}
	if source, ok := r.Source.(StreamCompleter); ok {
		source.Settle(func(s schemas.Stream) schemas.Stream { return r.remembered(s).Apply(s) })
	}
}

// foresee makes the forecast of the run.
func (r *run) foresee(ctx context.Context) {
	if r.Forecast == nil || len(r.Destinations) == 0 {
		return
	}
	r.forecast = r.Forecast(ctx, stored(r.Destinations[0].Destination))
	if s, ok := r.Destinations[0].Destination.(*surveyedDestination); ok {
		s.forget(load.Certificates.Name, load.Runs.Name)
	}
}

// remembered returns what the destinations store about s: the newest convention that fits the current request of s,
// and the newest profile.
func (r *run) remembered(s schemas.Stream) Memory {
	var m Memory
	for _, d := range r.Destinations {
		have, ok := r.memory[d.Name][s.Name]
		if !ok {
			continue
		}
		if have.Fits(s) && have.LearnedAt.After(m.LearnedAt) {
			m.Convention = have.Convention
		}
		if p := have.Profile; p != nil && (m.Profile == nil || p.At.After(m.Profile.At)) {
			m.Profile, m.Rules = p, have.Rules
		}
	}
	return m
}

func (r *run) keyOf(ctx context.Context, s schemas.Stream) []string {
	for _, d := range r.Destinations {
		tables, err := d.Tables(ctx, s.Table.Name)
		if err != nil {
			continue
		}
		if i := slices.IndexFunc(tables, func(t schemas.Table) bool { return t.Name == s.Table.Name }); i >= 0 {
			return tables[i].Key
		}
	}
	return s.Key
}

type rejectIndex struct {
	once    sync.Once
	err     error
	streams map[string]*reject.Open
}

func (r *run) openRejects(ctx context.Context, d Destination, stream string) (*reject.Open, error) {
	r.mu.Lock()
	x := r.rejectsOf[d.Name]
	if x == nil {
		x = &rejectIndex{}
		r.rejectsOf[d.Name] = x
	}
	r.mu.Unlock()
	x.once.Do(func() {
		x.streams, x.err = reject.ReadOpen(ctx, stored(d.Destination), r.Name)
		if s, ok := d.Destination.(*surveyedDestination); ok {
			s.forget(load.Rejects.Name)
		}
	})
	if x.err != nil {
		return nil, fmt.Errorf("read open rejects: %w", x.err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.streams[stream] == nil {
		x.streams[stream] = reject.NewOpen()
	}
	return x.streams[stream], nil
}

// forgetRejects lets the next call of openRejects read the destination again.
func (r *run) forgetRejects(destination string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.rejectsOf, destination)
}

func (r *run) byClock(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(time.Until(r.Now()).Round(time.Second)) // a difference of less than half a second between the clocks is ignored
}

func (r *run) backfill() string {
	if r.Options.Backfill == nil {
		return ""
	}
	return r.Options.Backfill.Name()
}

func (r *run) noticeRows(all []drift.Notice) [][]any {
	at, rows := r.Now(), make([][]any, len(all))
	for i, n := range all {
		rows[i] = []any{at, r.Run, n.Table, n.Column, "", load.ActionDrift, n.From, n.To, string(n.Severity) + ": " + n.Kind + ": " + n.Reason}
	}
	return rows
}
