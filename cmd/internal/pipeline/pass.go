package pipeline

import (
	"context"
	"iter"
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
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/transform"
)

type pass struct {
	*streamRun
	id      string
	number  int       // number in its run, from 1
	began   time.Time // when the pass began, by the run's clock
	resumes bool      // an earlier process began this pass

	restKnown    bool
	from         state.Cursor
	destinations []*destinationRun

	rowCheck *missingRowCheck
	parents  *parents.Tracker // nil if every parent is requested, or the stream has no parents
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
	older   older // records that an earlier pass should have read
	left    []transform.TableBatch
	begun   time.Time
	rows    int64
	size    groupSize
	held    int64 // bytes reserved from the budget for this group
	loose   int64 // the part of g.held for pages whose records are not in a batch yet
	batched int64 // bytes of the batches that were made since the last call of settle()
	spill   bool  // write the group to the transaction now, although the transaction stays open

	next    cursor.Position
	total   tally
	end     *extract.End
	ended   time.Time      // when the list ended; set together with end
	digest  rowhash.Digest // set together with end
	profile *drift.Profile // set together with end; nil if the pass left out records
	control string         // see type reader; set together with end
	refused rejectedKeys   // see type reader; set together with end
	met     *reject.Met    // rejects of the pass; set in every group
}

type groupSize struct {
	rows  int64
	cells int64
	bytes int64
}

func (p *pass) via() string {
	if p.run.Options.Backfill != nil {
		return "backfill"
	}
	return "poll"
}

// ordinal returns the number of the pass in the run.
func (p *pass) ordinal() int {
	return max(p.passes, int(runid.Pass(p.run.Run, p.id)))
}

func (p *pass) lost() bool {
	return !slices.ContainsFunc(p.destinations, func(k *destinationRun) bool { return !k.out })
}

// stamp returns the run id of the pass's rows. With this id a destination distinguishes these rows from rows of earlier
// passes.
// Invariant 12
func (p *pass) stamp() string {
	return max(p.id, p.run.Run)
}

func (p *pass) drop(g *group) {
	batch.ReleaseTables(g.batches)
	batch.ReleaseTables(g.left)
	p.run.budget.release(g.held)
	*g = group{}
}

// older marks those records of a group that were changed before the edge. The edge is the time up to which earlier
// passes have read all changes.
type older struct {
	from  int64
	flags []bool
	edge  time.Time
}

func (o *older) add(at, n int64, page extract.Page) {
	flags := page.Older
	if int64(len(flags)) != n {
		flags = make([]bool, n)
	}
	o.edge = page.Edge
	if len(o.flags) == 0 {
		o.from = at
	}
	o.flags = append(o.flags, flags...)
}

func (o *older) is(ordinal int64) bool {
	i := ordinal - o.from
	return i >= 0 && i < int64(len(o.flags)) && o.flags[i]
}

func (p *pass) pages(ctx context.Context) iter.Seq2[extract.Page, error] {
	if source, able := p.run.Source.(PartSource); able && p.parents.Skips() {
		return source.PagesOf(ctx, p.stream, p.from, p.parents.Needs)
	}
	return p.run.Source.Pages(ctx, p.stream, p.from)
}

func (p *pass) requests() int {
	if p.rowCheck == nil {
		return p.total.requests
	}
	return p.total.requests + p.rowCheck.requests
}

func (p *pass) sweep(g *group, names bool) load.Sweep {
	if g.end == nil || g.end.Skipped > 0 || g.end.Partial {
		return load.Sweep{} // rows that the pass did not try to read are not missing
	}
	s := load.Sweep{Table: p.stream.Table.Name}
	if p.rowCheck != nil && names || g.total.rejected > 0 {
		s.List = maxAsked
	}
	return s
}
