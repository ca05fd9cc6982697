package pipeline

import (
	"context"
	"errors"
	"fmt"
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
}

// A group of 122,880 rows, or a page more, fills one row group of DuckDB, which
// is compressed while it is inserted. One of 137,000 leaves a scrap beside it,
// one of 122,000 waits for the commit, and either is worked over once more by
// the next checkpoint: a million rows then cost half as much CPU again.
var defaultLimits = limits{
	batchRows:  10_000,
	batchBytes: 32 << 20,
	groupRows:  122_880,
	groupBytes: 72 << 20,
	groupAge:   30 * time.Second,
}

// pass is one reading of a stream, from where its sinks stand to its end.
type pass struct {
	*streamRun
	id      string
	resumes bool // an earlier process began it
	from    state.Cursor
	sinks   []*sink

	mapper *transform.Mapper
	hasher hasher
	digest digest
	total  tally // of the source's side, up to the group at hand
	group  *group
	spills bool // every group is applied at once: see reserve

	open sync.WaitGroup // groups that were sent and are not committed yet
	kept int64          // share in the budget of what an open transaction was given
}

// tally is what the source's side of a pass counts.
type tally struct {
	fetched, rejected int64
	pages, requests   int
	bytes             int64
}

// group is what one commit holds.
type group struct {
	batches []transform.TableBatch
	rejects []transform.Reject
	begun   time.Time
	rows    int64 // of the root table, in the batches
	bytes   int64 // of the batches
	held    int64 // from the budget
	spill   bool  // have it applied, though the transaction stays open

	next   position // after the group's last page
	total  tally    // of the pass, up to here
	end    *extract.End
	digest digest // of the whole pass; with end
}

// read yields the pass's groups to a second goroutine, which commits one while
// the next is gathered, and returns when both are through.
func (p *pass) read(ctx context.Context) error {
	if err := p.prepare(ctx); err != nil {
		return err
	}
	defer p.mapper.Close()
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

// prepare makes the mapper, which starts from the tables as they are.
func (p *pass) prepare(ctx context.Context) error {
	var known []schemas.Table
	if first := p.sinks[0].dest; first.Destination != nil { // the others widen what does not fit
		var err error
		if known, err = first.Tables(ctx, p.stream.Table.Name); err != nil {
			return fmt.Errorf("%s to %s: %w", p.stream.Name, first.Name, err)
		}
	}
	p.mapper = transform.NewMapper(p.stream, transform.Stamp{Run: p.stamp(), SyncedAt: time.Now().UTC(), Via: "poll"}, known)
	p.hasher.seed = p.seed
	p.group = &group{begun: time.Now()}
	return nil
}

// stamp is what the rows written in this pass bear as their run: an id by which
// the destination tells them from those of the passes before. // Invariant 12
func (p *pass) stamp() string {
	if p.resumes {
		return p.Run // later than the pass's own id, and earlier than those to come
	}
	return p.id
}

// gather reads pages into groups and sends each on when it is full.
func (p *pass) gather(ctx context.Context, groups chan<- *group) error {
	for page, err := range p.Source.Pages(ctx, p.stream, p.from) {
		if err == nil && p.group.end != nil {
			err = errors.New("a page came after the last one")
		}
		if err != nil {
			p.salvage(ctx, groups)
			return p.readError(ctx, err)
		}
		if err := p.take(ctx, groups, page); err != nil {
			return err
		}
	}
	switch {
	case p.group.end != nil:
		return p.send(ctx, groups)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("%s: the pages stopped before their end", p.stream.Name)
	}
}

// readError is a source's error as the run reports it: that of a cancelled
// context gives way to the reason of the cancelling.
func (p *pass) readError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%s: page %d: %w", p.stream.Name, p.total.pages+1, err)
}

// salvage sends on what was gathered before the source failed, so that the
// next run need not read it again.
func (p *pass) salvage(ctx context.Context, groups chan<- *group) {
	if ctx.Err() == nil && p.keyed() && p.group.end == nil {
		_ = p.send(ctx, groups) // fails only if ctx is done by now
	}
}

// keyed reports whether a pass may be committed in parts. A table without a key
// cannot tell the rows of a pass from those before, so there a pass is one
// transaction.
func (p *pass) keyed() bool { return len(p.stream.Key) > 0 }

// take adds a page to the group.
func (p *pass) take(ctx context.Context, groups chan<- *group, page extract.Page) error {
	if err := p.reserve(ctx, groups, len(page.Records)); err != nil {
		return err
	}
	if err := p.mapper.Append(page.Records); err != nil {
		return fmt.Errorf("%s: map page %d: %w", p.stream.Name, p.total.pages+1, err)
	}
	g := p.group
	g.next = position{pass: p.id, at: page.Next, end: page.End != nil}
	g.end = page.End
	p.count(page)
	if p.mapper.Rows() >= p.limits.batchRows || p.mapper.Bytes() >= p.limits.batchBytes {
		p.flush()
	}
	if g.end == nil && p.full() {
		return p.send(ctx, groups)
	}
	return nil
}

// full reports whether the group is what one commit holds.
func (p *pass) full() bool {
	g := p.group
	return g.rows+int64(p.mapper.Rows()) >= int64(p.limits.groupRows) ||
		g.bytes+p.mapper.Bytes() >= p.limits.groupBytes ||
		time.Since(g.begun) >= p.limits.groupAge
}

// reserve takes a page's bytes from the budget. Where there are none left, those
// of the group being committed come back by themselves. Is that not enough, the
// group at hand goes out as it is, so that nobody waits while holding what
// others need.
//
// A pass in one transaction holds on to what it has sent. Rather than wait with
// it, it has the transaction applied from then on, group by group, which makes
// the rows the destination's concern, and does without the budget: only one
// transaction can be in that state, and nothing it needs waits for the budget.
func (p *pass) reserve(ctx context.Context, groups chan<- *group, n int) error {
	cost := p.budget.cost(n)
	if p.spills {
		return nil
	}
	if p.budget.try(cost) {
		p.group.held += cost
		return nil
	}
	p.open.Wait()
	if !p.budget.try(cost) {
		p.spills = !p.keyed() && p.total.pages > 0
		if err := p.send(ctx, groups); err != nil || p.spills {
			return err
		}
		if err := p.budget.wait(ctx, cost); err != nil {
			return context.Cause(ctx)
		}
	}
	p.group.held += cost
	return nil
}

func (p *pass) count(page extract.Page) {
	fetched := p.mapper.Fetched()
	e := Event{Kind: EventPage, Stream: p.stream.Name, Records: fetched - p.total.fetched,
		Bytes: page.Bytes, Requests: page.Requests, Total: page.Total}
	p.total.fetched, p.total.rejected = fetched, p.mapper.Rejected()
	p.total.pages++
	p.total.requests += page.Requests
	p.total.bytes += page.Bytes
	if p.stream.Auth == schemas.AuthBearer {
		p.gates[p.stream.Surface].answered()
	}
	p.tell(e)
}

// flush moves what the mapper has buffered into the group.
func (p *pass) flush() {
	g := p.group
	g.rows += int64(p.mapper.Rows())
	g.bytes += p.mapper.Bytes()
	batches, rejects := p.mapper.Flush()
	g.batches = append(g.batches, batches...)
	g.rejects = append(g.rejects, rejects...)
	for _, b := range batches {
		if b.Table.Name == p.stream.Table.Name {
			p.hasher.add(&p.digest, b.Table, b.Batch)
		}
	}
}

// send hands the group over and begins the next one.
func (p *pass) send(ctx context.Context, groups chan<- *group) error {
	p.flush()
	g := p.group
	if g.next == (position{}) && !p.spills {
		return nil // no page yet
	}
	g.total, g.digest, g.spill = p.total, p.digest, p.spills
	p.open.Add(1)
	select {
	case groups <- g:
		p.group = &group{begun: time.Now()}
		return nil
	case <-ctx.Done():
		p.open.Done()
		return context.Cause(ctx)
	}
}

// drop lets go of a group's batches and of its share in the budget.
func (p *pass) drop(g *group) {
	for _, b := range g.batches {
		b.Batch.Release()
	}
	p.budget.release(g.held)
	*g = group{}
}
