package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// reader reads the pages of a pass, maps their records, and groups the rows for the commits.
type reader struct {
	p *pass

	mapper        *transform.Mapper
	shaper        *transform.Shaper
	hasher        *rowhash.Hasher
	digest        rowhash.Digest
	profile       drift.Profiler
	control       string       // the key of some record that the pass has read, as JSON: see missingRowCheck
	refused       rejectedKeys // keys of rejected records
	met           reject.Met
	key           keyJudge
	partial       bool // the pass left out unchanged records, according to its latest page
	inPage        bool // a page is being mapped
	large         bool
	recordsBefore int64

	group  *group
	spills bool // each group is written to the transaction as soon as it is complete: see reserve()
}

// open starts the mapper with the tables of the destinations. If the parameter settled is true, every destination
// already has tables of this pipeline.
func (rd *reader) open(have []schemas.Table, settled bool) (err error) {
	p := rd.p
	rd.mapper = transform.NewMapper(p.stream, transform.Stamp{Run: p.stamp(), SyncedAt: p.run.Now().UTC(), Via: p.via()}, have)
	rd.profile = drift.NewProfiler(p.known.Profile, have)
	rd.key.watch(rd.mapper)
	if rd.shaper, err = transform.NewShaper(rd.mapper, settled); err != nil {
		rd.mapper.Close()
		return fmt.Errorf("%s: %w", p.stream.Name, err)
	}
	if p.tracksLeft() {
		rd.shaper.TrackFiltered()
	}
	return nil
}

func (rd *reader) gather(ctx context.Context, groups chan<- *group) error {
	for page, err := range rd.p.pages(ctx) {
		if err == nil && rd.group.end != nil {
			err = errors.New("a page came after the last page")
		}
		if err != nil {
			rd.salvage(ctx, groups, err)
			return rd.readError(ctx, err)
		}
		if err := rd.take(ctx, groups, page); err != nil {
			return err
		}
	}
	switch {
	case rd.group.end != nil:
		return rd.send(ctx, groups)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("%s: the pages stopped before the end of the list", rd.p.stream.Name)
	}
}

func (rd *reader) readError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%s: page %d: %w", rd.p.stream.Name, rd.p.total.pages+1, err)
}

// salvage sends the pages read before the source failed, so that the next run need not read them again.
func (rd *reader) salvage(ctx context.Context, groups chan<- *group, err error) {
	if ctx.Err() == nil && !refuted(err) && rd.p.parts() && rd.group.end == nil {
		_ = rd.send(ctx, groups)
	}
}

func (rd *reader) take(ctx context.Context, groups chan<- *group, page extract.Page) error {
	if rd.p.unseen(page) {
		return fmt.Errorf("%s: %w", rd.p.stream.Name, errFirst)
	}
	files := 0
	for _, f := range page.Files {
		files += len(f.Body)
	}
	if err := rd.reserve(ctx, groups, len(page.Records)+files); err != nil {
		return err
	}
	rd.large = rd.large || len(page.Records) >= largePage
	at := rd.mapper.Fetched()
	if err := rd.mapPage(ctx, page); err != nil {
		return err
	}
	g := rd.group
	rd.partial = page.Partial
	g.older.add(at, rd.mapper.Fetched()-at, page)
	g.next = cursor.Position{Pass: rd.p.id, Source: page.Next, Ended: page.End != nil}
	g.gaps = append(g.gaps, page.Gaps...)
	for _, gap := range page.Gaps {
		rd.met.Add(gapReject(gap))
	}
	g.end = page.End
	g.files = append(g.files, page.Files...)
	g.size.bytes += int64(files)
	if g.end != nil {
		g.ended = rd.p.run.Now().UTC()
	}
	rd.count(page)
	if rd.p.parents != nil {
		rd.p.parents.Note(page.Parents)
	}
	if g.batched > 0 {
		rd.settle()
	}
	if g.end == nil && rd.full() {
		return rd.send(ctx, groups)
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
func (rd *reader) mapPage(ctx context.Context, page extract.Page) error {
	before, rejects := rd.size(), len(rd.group.rejects)
	rd.inPage = true
	defer func() { rd.inPage = false }()
	for full, err := range rd.mapper.AppendParts(page.Parts()) {
		if err != nil {
			return fmt.Errorf("%s: map page %d: %w", rd.p.stream.Name, rd.p.total.pages+1, err)
		}
		if err := rd.key.doubt(rd.mapper.Repeats()); err != nil {
			return fmt.Errorf("%s: %w", rd.p.stream.Name, err)
		}
		if full || rd.mapper.Rows() >= rd.p.run.limits.batchRows || rd.mapper.Bytes() >= rd.p.run.limits.batchBytes {
			if err := rd.flush(); err != nil {
				return err
			}
		}
		if err := tooLarge(before, rd.size(), len(rd.group.rejects)-rejects); err != nil {
			return fmt.Errorf("%s: map page %d: %w", rd.p.stream.Name, rd.p.total.pages+1, err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (rd *reader) size() groupSize {
	size := rd.group.size
	size.bytes += rd.mapper.Bytes()
	return size
}

// tooLarge returns an error if one page has too many rows, cells, bytes or rejects. It compares the size of the group
// now with its size before the page.
func tooLarge(before, now groupSize, rejects int) error {
	switch {
	case rejects > mostRejects:
		return fmt.Errorf("more than %d of its records and values fit no column; set a smaller page size (pagination.limit of the stream)", mostRejects)
	case now.rows-before.rows > mostRows:
		return fmt.Errorf("more than %d rows; set a smaller page size (pagination.limit of the stream)", mostRows)
	case now.bytes-before.bytes > mostMapped || now.cells-before.cells > mostCells:
		return fmt.Errorf("its rows take more than %d MB or %d million cells in columns; set a smaller page size (pagination.limit of the stream). If most columns of its rows are empty, you can set a lower max_columns instead; then more members of each record are stored in %s", mostMapped>>20, mostCells>>20, schemas.ColRest)
	}
	return nil
}

func (rd *reader) full() bool {
	g := rd.group
	return g.rows+int64(rd.mapper.Rows()) >= int64(rd.p.run.limits.groupRows) ||
		g.size.bytes+rd.mapper.Bytes() >= rd.p.run.limits.groupBytes ||
		time.Since(g.begun) >= rd.p.run.limits.groupAge
}

// reserve takes the bytes of a page from the budget. If too few are left, it first waits for the groups that are being
// committed. If that is not enough, it sends the current group to be committed. So no pass waits while it holds memory
// that other passes need.
//
// A pass that commits only once, at its end, keeps all its groups in memory until then. If the budget is used up, the
// pass writes its groups to the open transaction one by one. From then on the rows use memory of the destination, and
// the pass takes no more bytes from the budget.
func (rd *reader) reserve(ctx context.Context, groups chan<- *group, n int) error {
	cost := rd.p.run.budget.cost(n)
	if rd.spills {
		return nil
	}
	if rd.p.run.budget.try(cost) {
		rd.hold(cost)
		return nil
	}
	rd.p.open.Wait()
	if !rd.p.run.budget.try(cost) {
		rd.spills = !rd.p.parts() && rd.p.total.pages > 0
		if err := rd.send(ctx, groups); err != nil || rd.spills {
			return err
		}
		if err := rd.p.run.budget.wait(ctx, cost); err != nil {
			return context.Cause(ctx)
		}
	}
	rd.hold(cost)
	return nil
}

func (rd *reader) hold(cost int64) {
	rd.group.held += cost
	rd.group.loose += cost
}

// settle gives bytes back to the budget when pages have become batches. Batches are often half as large as pages. If
// the bytes were not given back, the next pages would have to wait for each commit. In the middle of a page nothing is
// given back, because the body of the page is still in memory.
func (rd *reader) settle() {
	g := rd.group
	if rd.inPage {
		return
	}
	buffered := rd.mapper.Bytes()
	if surplus := g.loose - g.batched - buffered; surplus > 0 {
		rd.p.run.budget.release(surplus)
		g.held -= surplus
	}
	g.loose, g.batched = min(g.loose, buffered), 0
}

func (rd *reader) count(page extract.Page) {
	fetched := rd.mapper.Fetched()
	e := Event{Kind: EventPage, Stream: rd.p.stream.Name, Records: fetched - rd.recordsBefore,
		Bytes: page.Bytes, Requests: page.Requests, Total: page.Total, Windows: page.Windows}
	rd.recordsBefore = fetched
	rd.p.total.pages++
	rd.profile.AddPage(e.Records)
	rd.p.total.requests += page.Requests
	rd.p.total.bytes += page.Bytes
	rd.p.run.gateOf(rd.p.stream).answered(rd.p.stream)
	rd.p.run.emit(e)
}

func (rd *reader) send(ctx context.Context, groups chan<- *group) error {
	if err := rd.flush(); err != nil {
		return err
	}
	g := rd.group
	if g.next == (cursor.Position{}) && !rd.spills {
		return nil
	}
	g.total, g.digest, g.control, g.refused, g.spill = rd.p.total, rd.digest, rd.control, rd.refused, rd.spills
	g.met = &rd.met
	if g.end != nil && !rd.p.resumes && g.end.Skipped == 0 && !g.end.Partial {
		g.profile = rd.profile.Profile(g.ended)
	}
	if g.end != nil {
		rd.mapper.Close()
	}
	if rd.large {
		debug.FreeOSMemory() // the commit needs the memory that reading the page took
		rd.large = false
	}
	if rd.p.parents != nil {
		g.parents = rd.p.parents.Take()
		if g.end != nil {
			rd.p.parents.End()
		}
	}
	rd.p.open.Add(1)
	select {
	case groups <- g:
		rd.group = &group{begun: time.Now()}
		return nil
	case <-ctx.Done():
		rd.p.open.Done()
		return context.Cause(ctx)
	}
}

// flush moves the mapped rows to the group. It updates digest and profile before the stream's rules apply, so that a
// filter does not make the list look shorter.
func (rd *reader) flush() error {
	g := rd.group
	bytes := rd.mapper.Bytes()
	g.size.bytes += bytes
	g.batched += bytes
	defer rd.settle()
	batches, rejects := rd.mapper.Flush()
	for _, b := range batches {
		g.size.rows += b.Batch.NumRows()
		g.size.cells += b.Batch.NumRows() * b.Batch.NumCols()
		rd.profile.Add(b.Table, b.Batch)
		if b.Table.Name == rd.p.stream.Table.Name {
			rd.hasher.Add(&rd.digest, b.Table, b.Batch)
			rd.control = cmp.Or(rd.control, controlOf(b.Table, b.Batch))
		}
	}
	batches, kept, err := rd.shaper.Shape(batches)
	if err != nil {
		return fmt.Errorf("%s: %w", rd.p.stream.Name, err)
	}
	rd.takeLeft(g)
	for _, b := range batches {
		batch.Share(b.Batch)
		if b.Table.Name == rd.p.stream.Table.Name {
			g.rows += b.Batch.NumRows()
			rd.met.Store(b)
			if err := rd.p.parents.AddRows(b.Table, b.Batch); err != nil {
				return fmt.Errorf("%s: %w", rd.p.stream.Name, err)
			}
		}
	}
	g.batches = append(g.batches, batches...)
	if g.rejects == nil {
		g.rejects = slices.Clip(rejects) // many rejects take much memory, so they are not copied // Invariant 6
	} else {
		g.rejects = append(g.rejects, rejects...)
	}
	g.rejects = append(g.rejects, kept...)
	rd.met.Add(rejects...)
	rd.met.Add(kept...)
	rd.refused.add(rejects)
	rd.refused.add(kept)
	rd.p.parents.Refuse(rejects)
	rd.p.parents.Refuse(kept)
	rd.p.total.filtered = rd.shaper.Filtered()
	rd.p.total.fetched = rd.mapper.Fetched() - rd.p.total.filtered
	rd.p.total.clashes, rd.p.total.repeats = rd.key.clash, rd.mapper.Repeats()
	rd.p.total.beyond = rd.mapper.BeyondLimit()
	rd.p.total.rejected = rd.mapper.Rejected() + rd.shaper.Rejected()
	return nil
}

func (rd *reader) takeLeft(g *group) {
	left := rd.shaper.FilteredKeys()
	if !rd.partial {
		batch.ReleaseTables(left)
		return
	}
	for _, b := range left {
		batch.Share(b.Batch)
	}
	g.left = append(g.left, left...)
}
