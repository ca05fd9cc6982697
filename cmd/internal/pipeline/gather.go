package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
)

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

func (p *pass) readError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%s: page %d: %w", p.stream.Name, p.total.pages+1, err)
}

// salvage sends the pages read before the source failed, so that the next run need not read them again.
func (p *pass) salvage(ctx context.Context, groups chan<- *group, err error) {
	if ctx.Err() == nil && !refuted(err) && p.parts() && p.group.end == nil {
		_ = p.send(ctx, groups)
	}
}

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
	g.next = cursor.Position{Pass: p.id, Source: page.Next, Ended: page.End != nil}
	g.gaps = append(g.gaps, page.Gaps...)
	for _, gap := range page.Gaps {
		p.met.Add(gapReject(gap))
	}
	g.end = page.End
	g.files = append(g.files, page.Files...)
	g.size.bytes += int64(files)
	if g.end != nil {
		g.ended = p.Now().UTC()
	}
	p.count(page)
	if p.parents != nil {
		p.parents.Note(page.Parents)
	}
	if g.batched > 0 {
		p.settle()
	}
	if g.end == nil && p.full() {
		return p.send(ctx, groups)
	}
	return nil
}

// largePage is the page size above which memory is returned to the operating system before the commit. // Invariant 6
const largePage = 16 << 20

// Limits of one page. Short records in a table of many columns can take a thousand times the memory of their
// JSON.
// Invariant 6
const (
	mostMapped  = 112 << 20 // bytes of the rows in columns
	mostCells   = 128 << 20 // values and nulls: a null takes time in every destination
	mostRows    = 1_000_000 // in all tables together: the destination needs memory to merge them
	mostRejects = 125_000   // rejected records and values
)

// mapPage maps a page part by part, so that the memory for its rows is limited. // Invariants 6 and 15
func (p *pass) mapPage(ctx context.Context, page extract.Page) error {
	before, rejects := p.size(), len(p.group.rejects)
	p.inPage = true
	defer func() { p.inPage = false }()
	for full, err := range p.mapper.AppendParts(page.Parts()) {
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
		if err := tooLarge(before, p.size(), len(p.group.rejects)-rejects); err != nil {
			return fmt.Errorf("%s: map page %d: %w", p.stream.Name, p.total.pages+1, err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (p *pass) size() groupSize {
	size := p.group.size
	size.bytes += p.mapper.Bytes()
	return size
}

// tooLarge compares the group with its size before the page began.
func tooLarge(before, now groupSize, rejects int) error {
	switch {
	case rejects > mostRejects:
		return fmt.Errorf("more than %d of its records and values fit no column; set a smaller page size (pagination.limit of the stream)", mostRejects)
	case now.rows-before.rows > mostRows:
		return fmt.Errorf("more than %d rows; set a smaller page size (pagination.limit of the stream)", mostRows)
	case now.bytes-before.bytes > mostMapped || now.cells-before.cells > mostCells:
		return fmt.Errorf("its rows take more than %d MB or %d million cells in columns; set a smaller page size (pagination.limit of the stream) or, if most columns of its rows are empty, a lower max_columns, which keeps more of each record in %s", mostMapped>>20, mostCells>>20, schemas.ColRest)
	}
	return nil
}

func (p *pass) full() bool {
	g := p.group
	return g.rows+int64(p.mapper.Rows()) >= int64(p.limits.groupRows) ||
		g.size.bytes+p.mapper.Bytes() >= p.limits.groupBytes ||
		time.Since(g.begun) >= p.limits.groupAge
}

// reserve takes the bytes of a page from the budget. If too few are left, it first waits for the groups that are
// being committed. If that is not enough, it sends the current group to be committed. So no pass waits while it holds
// memory that others need.
//
// A pass that commits only once, at its end, keeps all its groups in memory until then. If the budget is used up, the
// pass applies its groups to the transaction one by one. From then on the rows use memory of the destination, and the
// pass takes no more bytes from the budget.
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

// settle gives bytes back to the budget once pages have become batches, which are often half as large. Without
// settle, the next pages would have to wait for each commit. In the middle of a page nothing is given back, because
// the body of the page is still in memory.
func (p *pass) settle() {
	g := p.group
	if p.inPage {
		return
	}
	buffered := p.mapper.Bytes()
	if surplus := g.loose - g.batched - buffered; surplus > 0 {
		p.budget.release(surplus)
		g.held -= surplus
	}
	g.loose, g.batched = min(g.loose, buffered), 0
}

func (p *pass) count(page extract.Page) {
	fetched := p.mapper.Fetched()
	e := Event{Kind: EventPage, Stream: p.stream.Name, Records: fetched - p.recordsBefore,
		Bytes: page.Bytes, Requests: page.Requests, Total: page.Total, Windows: page.Windows}
	p.recordsBefore = fetched
	p.total.pages++
	p.profile.AddPage(e.Records)
	p.total.requests += page.Requests
	p.total.bytes += page.Bytes
	p.gateOf(p.stream).answered(p.stream)
	p.emit(e)
}

func (p *pass) send(ctx context.Context, groups chan<- *group) error {
	if err := p.flush(); err != nil {
		return err
	}
	g := p.group
	if g.next == (cursor.Position{}) && !p.spills {
		return nil
	}
	g.total, g.digest, g.control, g.refused, g.spill = p.total, p.digest, p.control, p.refused, p.spills
	g.met = &p.met
	if g.end != nil && !p.resumes && g.end.Skipped == 0 && !g.end.Partial {
		g.profile = p.profile.Profile(g.ended)
	}
	if g.end != nil {
		p.mapper.Close()
	}
	if p.large {
		debug.FreeOSMemory() // the commit needs the memory that reading the page took
		p.large = false
	}
	if p.parents != nil {
		g.parents = p.parents.Take()
		if g.end != nil {
			p.parents.End()
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

func (p *pass) drop(g *group) {
	batch.ReleaseTables(g.batches)
	batch.ReleaseTables(g.left)
	p.budget.release(g.held)
	*g = group{}
}
