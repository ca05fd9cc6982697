package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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

	mapper        *transform.Mapper
	shaper        *transform.Shaper
	hasher        rowhash.Hasher
	digest        rowhash.Digest
	profile       drift.Profiler
	control       string // the key of a record in the pass, as JSON
	rowCheck      *missingRowCheck
	refused       refused // keys of rejected records
	met           reject.Met
	parents       *parents.Tracker // nil if every parent is requested, or there are none
	keys          *overlay.Keys    // nil if the pass allows no deltas
	clash         clashes
	partial       bool // the pass left out unchanged records, according to its latest page
	inPage        bool // a page is being mapped
	large         bool
	recordsBefore int64

	total  tally
	group  *group
	spills bool // each group is applied to the transaction as soon as it is complete: see reserve

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
	if err := p.prepare(ctx); err != nil {
		return err
	}
	defer p.mapper.Close()
	if p.lost() {
		return nil
	}
	p.allowDeltas()
	err := p.through(ctx)
	if p.hasOverlays() {
		if lost := p.retakeLock(ctx); err == nil {
			err = lost
		}
	}
	return err
}

func (p *pass) through(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	groups := make(chan *group)
	var committer sync.WaitGroup
	committer.Go(func() { p.commitAll(ctx, groups, cancel) })
	err := Guard(p.stream.Name, func() error { return p.gather(ctx, groups) })
	p.drop(p.group)
	close(groups)
	committer.Wait()
	if errors.Is(err, errCommit) {
		return nil
	}
	return err
}

// prepare starts the mapper with the tables of all destinations. So the types of columns do not depend on the order
// of the destinations.
func (p *pass) prepare(ctx context.Context) (err error) {
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
			return err
		}
		known = append(known, tables)
		p.watch.settled = p.watch.settled || slices.ContainsFunc(tables, func(t schemas.Table) bool { return t.Name == p.stream.Table.Name })
		if k.rejects != nil {
			p.met.Watch(k.rejects)
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
	have := schemas.JoinTables(known...)
	p.restKnown = slices.ContainsFunc(have, func(t schemas.Table) bool { return t.Columns != nil && t.Columns.HasField(schemas.ColRest) })
	p.mapper = transform.NewMapper(p.stream, transform.Stamp{Run: p.stamp(), SyncedAt: p.Now().UTC(), Via: p.via()}, have)
	p.watchKey()
	p.hasher.Seed = p.seed
	p.group = &group{begun: time.Now()}
	p.total.requests, p.probeRequests = p.probeRequests, 0
	p.refused.unknown = !p.stream.PlainKey()
	if p.parts() && p.stream.Table.Mode != schemas.Append {
		p.rowCheck = p.newMissingRowCheck(p.stream)
	}
	if p.shaper, err = transform.NewShaper(p.mapper, settled); err != nil {
		p.mapper.Close()
		return fmt.Errorf("%s: %w", p.stream.Name, err)
	}
	if p.tracksLeft() {
		p.shaper.TrackFiltered()
	}
	return nil
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
