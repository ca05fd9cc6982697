package pipeline

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/parents"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/transform"
)

// limits sets when a group is committed: when it is so large that the cost of a commit is worth it, or so old that
// reading its pages again would take long.
type limits struct {
	batchRows  int
	batchBytes int64
	groupRows  int
	groupBytes int64
	groupAge   time.Duration
	patience   time.Duration // maximum time after the first destination's commit for the others' commits
	keySlots   int           // slots for the keys of a pass, to compare records with the same key
}

var defaultLimits = limits{
	batchRows:  10_000,
	batchBytes: 32 << 20,
	groupRows:  122_880,
	groupBytes: DefaultGroupBytes,
	groupAge:   30 * time.Second,
	patience:   5 * time.Minute,
	keySlots:   transform.MostKeySlots,
}

type pass struct {
	*streamRun
	id      string
	number  int       // number in its run, from 1
	began   time.Time // time by the run's clock
	resumes bool      // an earlier process began this pass

	restKnown    bool
	from         state.Cursor
	destinations []*destinationRun

	rowCheck *missingRowCheck
	parents  *parents.Tracker // nil if every parent is requested, or there are none
	keys     *overlay.Keys    // nil if the pass allows no deltas

	total tally

	open sync.WaitGroup // groups that were sent and are not committed yet
	kept int64          // bytes reserved from the budget for the rows in open transactions
}

// tally counts what a pass has read, before any destination writes it.
type tally struct {
	fetched, rejected, filtered int64
	pages, requests             int
	bytes                       int64
	clashes                     clashes
	repeats                     transform.Repeats
	beyond                      []string
}

// group is the content of one commit.
type group struct {
	batches []transform.TableBatch
	rejects []transform.Reject
	gaps    []extract.Gap
	parents []parents.Parent // parents whose rows are complete with this group
	files   []extract.File
	older   older // which of its records an earlier pass should have read
	left    []transform.TableBatch
	begun   time.Time
	rows    int64
	size    groupSize
	held    int64
	loose   int64 // the part of held that belongs to pages whose records are in no batch yet
	batched int64 // bytes of the batches that were made since the last settle
	spill   bool  // apply the group although the transaction stays open

	next    cursor.Position
	total   tally
	end     *extract.End
	ended   time.Time      // when the list ended; set together with end
	digest  rowhash.Digest // set together with end
	profile *drift.Profile // set together with end; nil if the pass left out records
	control string         // see pass; set together with end
	refused refused        // see pass; set together with end
	met     *reject.Met    // rejects of the pass; set in every group
}

type groupSize struct {
	rows  int64
	cells int64
	bytes int64
}

func (p *pass) read(ctx context.Context) error {
	rd, err := p.prepare(ctx)
	if err != nil {
		return err
	}
	defer rd.mapper.Close()
	if p.lost() {
		return nil
	}
	p.allowDeltas()
	err = p.through(ctx, rd)
	if p.hasOverlays() {
		if lost := p.retakeLock(ctx); err == nil {
			err = lost
		}
	}
	return err
}

func (p *pass) through(ctx context.Context, rd *reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	groups := make(chan *group)
	var committer sync.WaitGroup
	committer.Go(func() { p.commitAll(ctx, groups, cancel) })
	err := Guard(p.stream.Name, func() error { return rd.gather(ctx, groups) })
	p.drop(rd.group)
	close(groups)
	committer.Wait()
	if errors.Is(err, errCommit) {
		return nil
	}
	return err
}

// prepare opens the destinations of the pass, and starts the mapper with the tables of all of them. So the types of
// columns do not depend on the order of the destinations.
func (p *pass) prepare(ctx context.Context) (*reader, error) {
	rd := &reader{p: p, hasher: p.hash(), group: &group{begun: time.Now()}, refused: refused{unknown: !p.stream.PlainKey()}}
	var known [][]schemas.Table
	settled := true
	p.parents = p.newParentTracker()
	for _, k := range p.destinations {
		tables, err := k.enter(ctx, p)
		if err != nil {
			k.drop(p, err)
			continue
		}
		if err := p.otherKey(tables); err != nil {
			return nil, err
		}
		known = append(known, tables)
		p.watch.settled = p.watch.settled || slices.ContainsFunc(tables, func(t schemas.Table) bool { return t.Name == p.stream.Table.Name })
		if k.rejects != nil {
			rd.met.Watch(k.rejects)
		}
		settled = settled && p.settled[k.dest.Name]
		if p.parents != nil && k.parentage != nil {
			p.parents.Know(k.parentage, k.again)
			k.again = nil
		}
	}
	if p.parents != nil && !p.partialBackfill() {
		p.parents.Skip()
	}
	if p.parts() && p.stream.Table.Mode != schemas.Append {
		p.rowCheck = p.newMissingRowCheck(p.stream)
	}
	p.total.requests, p.probeRequests = p.probeRequests, 0
	have := schemas.JoinTables(known...)
	p.restKnown = slices.ContainsFunc(have, func(t schemas.Table) bool { return t.Columns != nil && t.Columns.HasField(schemas.ColRest) })
	return rd, rd.open(have, settled)
}

func (p *pass) via() string {
	if p.Options.Backfill != nil {
		return "backfill"
	}
	return "poll"
}

func (p *pass) lost() bool {
	return !slices.ContainsFunc(p.destinations, func(k *destinationRun) bool { return !k.out })
}

// stamp returns the run id of the pass's rows. By this id a destination distinguishes them from rows of earlier
// passes.
// Invariant 12
func (p *pass) stamp() string {
	return max(p.id, p.Run)
}

func (p *pass) drop(g *group) {
	batch.ReleaseTables(g.batches)
	batch.ReleaseTables(g.left)
	p.budget.release(g.held)
	*g = group{}
}
