package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/transform"
)

// A batch is cut when it is worth a destination's while; a group of batches,
// which is what one commit holds, when a commit is worth its cost, or when
// losing it would mean to read for long again.
type limits struct {
	batchRows  int
	batchBytes int64
	groupRows  int
	groupBytes int64
	groupAge   time.Duration
	patience   time.Duration // after the first destination's commit, for the others'
	compared   int64         // rows of a table in memory at a time, of Verify
	keySlots   int           // for the keys of a pass, to compare the records of one key
}

var defaultLimits = limits{
	batchRows:  10_000,
	batchBytes: 32 << 20,
	groupRows:  122_880,
	groupBytes: DefaultGroupBytes,
	groupAge:   30 * time.Second,
	patience:   5 * time.Minute,
	compared:   1 << 19,
	keySlots:   transform.MostKeySlots,
}

// pass is one reading of a stream, from where its sinks stand to its end.
type pass struct {
	*streamRun
	id      string
	number  int       // in its run, from 1
	began   time.Time // by the clock of the run
	resumes bool      // an earlier process began it

	restKnown bool // the table has a column for what is beyond the bound of columns
	from      state.Cursor
	sinks     []*destinationRun

	mapper  *transform.Mapper
	shaper  *transform.Shaper
	hasher  hasher
	digest  digest
	profile profiler
	control string           // the key of a record that the pass carried, as JSON
	inquest *missingRowCheck // nil where single records cannot be asked for
	refused refused          // keys of records that were rejected
	met     metRejects
	kin     *parentTracker // nil where every parent is asked, and where there are none
	carried *bloom         // nil where the pass does not lend its turn
	clash   clashes        // records of one key
	partial bool           // what has not changed is left out, up to the page at hand
	inPage  bool           // a page is being mapped
	large   bool           // a page of the group was large
	read0   int64          // records up to the page before

	total  tally // of the source's side, up to the group at hand
	group  *group
	spills bool // every group is applied at once: see reserve

	open sync.WaitGroup // groups that were sent and are not committed yet
	kept int64          // share in the budget of what an open transaction was given
}

// tally is what the source's side of a pass counts.
type tally struct {
	fetched, rejected, filtered int64
	pages, requests             int
	bytes                       int64
	clashes                     clashes
	repeats                     transform.Repeats
	beyond                      []string // a few fields that are beyond the bound of columns
}

// group is what one commit holds.
type group struct {
	batches []transform.TableBatch
	rejects []transform.Reject
	gaps    []extract.Gap // of its pages
	parents []noted       // whose last rows it has
	files   []extract.File
	older   older                  // of its records
	left    []transform.TableBatch // keys of records that the filter leaves out
	begun   time.Time
	rows    int64 // of the root table, in the batches
	bytes   int64 // of the batches
	held    int64 // from the budget
	loose   int64 // of held: what pages have taken that are in no batch yet
	batched int64 // bytes of the batches since
	spill   bool  // have it applied, though the transaction stays open

	next    position // after the group's last page
	total   tally    // of the pass, up to here
	end     *extract.End
	ended   time.Time   // when the list was read to its end; with end
	digest  digest      // of the whole pass; with end
	profile *Profile    // likewise; nil for a part of a pass
	control string      // likewise
	refused refused     // likewise
	met     *metRejects // likewise
}

// read yields the pass's groups to a second goroutine, which commits one while
// the next is gathered, and returns when both are through.
func (p *pass) read(ctx context.Context) error {
	if err := p.prepare(ctx); err != nil {
		return err
	}
	defer p.mapper.Close()
	if p.lost() {
		return nil
	}
	p.lend()
	err := p.through(ctx)
	if p.lending() {
		if lost := p.takeTurn(ctx); err == nil {
			err = lost
		}
	}
	return err
}

// through gathers and commits the pass's groups.
func (p *pass) through(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	groups := make(chan *group)
	var committer sync.WaitGroup
	committer.Go(func() { p.commitAll(ctx, groups, cancel) })
	err := guard(p.stream.Name, func() error { return p.gather(ctx, groups) })
	p.drop(p.group)
	close(groups)
	committer.Wait()
	if errors.Is(err, errCommit) {
		return nil // each sink says why
	}
	return err
}

// prepare readies the sinks, and the mapper, which starts from the tables as
// they are in all of them: types never depend on which is asked first.
func (p *pass) prepare(ctx context.Context) (err error) {
	var known [][]schemas.Table
	settled := true
	p.kin = p.newParentTracker()
	for _, k := range p.sinks {
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
			p.met.watch(k.rejects)
		}
		settled = settled && p.settled[k.dest.Name]
		if p.kin != nil && k.parentage != nil {
			p.kin.known = append(p.kin.known, k.parentage)
			maps.Copy(p.kin.again, k.again)
			k.again = nil
		}
	}
	p.skipParents()
	have := schemas.JoinTables(known...)
	p.restKnown = slices.ContainsFunc(have, func(t schemas.Table) bool { return t.Columns != nil && t.Columns.HasField(schemas.ColRest) })
	p.mapper = transform.NewMapper(p.stream, transform.Stamp{Run: p.stamp(), SyncedAt: p.Now().UTC(), Via: p.via()}, have)
	p.watchKey()
	p.hasher.seed = p.seed
	p.group = &group{begun: time.Now()}
	p.total.requests, p.owed = p.owed, 0
	p.refused.unknown = !plainlyKeyed(p.stream)
	if p.parts() && p.stream.Table.Mode != schemas.Append {
		p.inquest = p.newMissingRowCheck(p.stream)
	}
	if p.shaper, err = transform.NewShaper(p.mapper, settled); err != nil {
		p.mapper.Close()
		return fmt.Errorf("%s: %w", p.stream.Name, err)
	}
	if p.tracksLeft() {
		p.shaper.TrackLeft()
	}
	return nil
}

// via says in what way the rows of the pass have come.
func (p *pass) via() string {
	if p.Options.Backfill != nil {
		return "backfill"
	}
	return "poll"
}

// lost reports whether every sink has dropped out.
func (p *pass) lost() bool {
	return !slices.ContainsFunc(p.sinks, func(k *destinationRun) bool { return !k.out })
}

// stamp is what the rows written in this pass bear as their run: an id by which
// the destination tells them from those of the passes before. // Invariant 12
func (p *pass) stamp() string {
	return max(p.id, p.Run) // where an earlier run began it: later than its own id, and earlier than those to come
}
