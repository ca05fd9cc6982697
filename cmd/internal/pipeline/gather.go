package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"time"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// gather reads pages into groups and sends each on when it is full.
func (p *pass) gather(ctx context.Context, groups chan<- *group) error {
	for page, err := range p.pages(ctx) {
		if err == nil && p.group.end != nil {
			err = errors.New("a page came after the last one")
		}
		if err != nil {
			p.salvage(ctx, groups, err)
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
func (p *pass) salvage(ctx context.Context, groups chan<- *group, err error) {
	if ctx.Err() == nil && !refuted(err) && p.parts() && p.group.end == nil {
		_ = p.send(ctx, groups) // fails only if ctx is done by now
	}
}

// take adds a page to the group.
func (p *pass) take(ctx context.Context, groups chan<- *group, page extract.Page) error {
	if p.unseen(page) {
		return fmt.Errorf("%s: %w", p.stream.Name, errFirst)
	}
	files := 0
	for _, f := range page.Files {
		files += len(f.Body)
	}
	if err := p.reserve(ctx, groups, len(page.Records)+files); err != nil {
		return err
	}
	p.large = p.large || len(page.Records) >= largePage
	at := p.mapper.Fetched()
	if err := p.mapPage(ctx, page); err != nil {
		return err
	}
	g := p.group
	p.partial = page.Partial
	g.older.add(at, p.mapper.Fetched()-at, page)
	g.next = position{pass: p.id, at: page.Next, end: page.End != nil}
	g.gaps = append(g.gaps, page.Gaps...)
	for _, gap := range page.Gaps {
		p.met.add(gapReject(gap))
	}
	g.end = page.End
	g.files, g.bytes = append(g.files, page.Files...), g.bytes+int64(files)
	if g.end != nil {
		g.ended = p.Now().UTC()
	}
	p.count(page)
	if p.kin != nil {
		p.kin.note(page.Parents)
	}
	if g.batched > 0 {
		p.settle()
	}
	if g.end == nil && p.full() {
		return p.send(ctx, groups)
	}
	return nil
}

// largePage is the size of a page whose memory the system gets back before the commit.
// // Invariant 6
const largePage = 16 << 20

// mostMapped is the most that the rows of one page may take in columns. Rows of few bytes
// in a table of many columns take a thousand times what they took in the page.
// // Invariant 6
const (
	mostMapped  = 160 << 20
	mostRejects = 250_000 // of one page
)

// mapPage reads the page's records into batches, part by part. // Invariants 6 and 15
func (p *pass) mapPage(ctx context.Context, page extract.Page) error {
	mapped, rejects := p.group.bytes, len(p.group.rejects)
	p.inPage = true
	defer func() { p.inPage = false }()
	for full, err := range appendPage(p.mapper, page) {
		if err != nil {
			return fmt.Errorf("%s: map page %d: %w", p.stream.Name, p.total.pages+1, err)
		}
		if err := p.doubtKey(); err != nil {
			return fmt.Errorf("%s: %w", p.stream.Name, err)
		}
		if full || p.mapper.Rows() >= p.limits.batchRows || p.mapper.Bytes() >= p.limits.batchBytes {
			if err := p.flush(); err != nil {
				return err
			}
		}
		if len(p.group.rejects)-rejects > mostRejects {
			return fmt.Errorf("%s: map page %d: more than %d of its records and values fit no column; a smaller page size (pagination.limit of the stream) helps", p.stream.Name, p.total.pages+1, mostRejects)
		}
		if p.group.bytes-mapped > mostMapped {
			return fmt.Errorf("%s: map page %d: its rows take more than %d MB in columns, most of them without a value; a smaller page size (pagination.limit of the stream) helps, and so does a lower max_columns, which keeps more of a record in %s", p.stream.Name, p.total.pages+1, mostMapped>>20, schemas.ColRest)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// appendPage appends a page to the mapper part by part. It yields after each part, so that
// the mapper can be flushed, and the error that ends the page. Where the mapper is full it
// has to be flushed. // Invariant 6
func appendPage(m *transform.Mapper, page extract.Page) iter.Seq2[bool, error] {
	return func(yield func(bool, error) bool) {
		before := m.Fetched()
		for offset, part := range page.Parts() {
			add := m.AppendMore
			if offset == 0 {
				add = m.Append
			}
			for rest := part; len(rest) > 0; add = m.AppendMore {
				records, at := m.Fetched()-before, offset+max(0, len(part)-len(rest))
				var err error
				rest, err = add(rest)
				if broken, ok := errors.AsType[*transform.SyntaxError](err); ok {
					broken.Offset, broken.Record = broken.Offset+at, broken.Record+records
				}
				if !yield(len(rest) > 0, err) || err != nil {
					return
				}
			}
		}
	}
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
		p.hold(cost)
		return nil
	}
	p.open.Wait()
	if !p.budget.try(cost) {
		p.spills = !p.parts() && p.total.pages > 0
		if err := p.send(ctx, groups); err != nil || p.spills {
			return err
		}
		if err := p.budget.wait(ctx, cost); err != nil {
			return context.Cause(ctx)
		}
	}
	p.hold(cost)
	return nil
}

func (p *pass) hold(cost int64) {
	p.group.held += cost
	p.group.loose += cost
}

// settle gives back what the pages of a batch have taken from the budget beyond
// the bytes that it holds: as JSON, records are often twice as large. Without it
// a group and the next would not find room beside each other, and one would be
// gathered only when the other is committed.
//
// Amid a page nothing is given back: its body is still in memory.
func (p *pass) settle() {
	g := p.group
	if p.inPage {
		return
	}
	buffered := p.mapper.Bytes()
	if spare := g.loose - g.batched - buffered; spare > 0 {
		p.budget.release(spare)
		g.held -= spare
	}
	g.loose, g.batched = min(g.loose, buffered), 0
}

func (p *pass) count(page extract.Page) {
	fetched := p.mapper.Fetched()
	e := Event{Kind: EventPage, Stream: p.stream.Name, Records: fetched - p.read0,
		Bytes: page.Bytes, Requests: page.Requests, Total: page.Total, Windows: page.Windows}
	p.read0 = fetched
	p.total.pages++
	p.profile.turn(e.Records)
	p.total.requests += page.Requests
	p.total.bytes += page.Bytes
	p.gateOf(p.stream).answered(p.stream)
	p.tell(e)
}

// send hands the group over and begins the next one.
func (p *pass) send(ctx context.Context, groups chan<- *group) error {
	if err := p.flush(); err != nil {
		return err
	}
	g := p.group
	if g.next == (position{}) && !p.spills {
		return nil // no page yet
	}
	g.total, g.digest, g.control, g.refused, g.spill = p.total, p.digest, p.control, p.refused, p.spills
	g.met = &p.met
	if g.end != nil && !p.resumes && g.end.Skipped == 0 && !g.end.Partial {
		g.profile = p.profile.profile(g.ended)
	}
	if g.end != nil {
		p.mapper.Close()
	}
	if p.large {
		debug.FreeOSMemory() // the commit needs what reading the page has taken
		p.large = false
	}
	if p.kin != nil {
		g.parents = p.kin.take()
		if g.end != nil {
			p.kin.end()
		}
	}
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
	releaseBatches(g.batches)
	releaseBatches(g.left)
	p.budget.release(g.held)
	*g = group{}
}
