package pipeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
)

// flush moves the mapped rows to the group. It updates digest and profile before the stream's rules apply, so that a
// filter does not make the list look shorter.
func (p *pass) flush() error {
	g := p.group
	bytes := p.mapper.Bytes()
	g.size.bytes += bytes
	g.batched += bytes
	defer p.settle()
	batches, rejects := p.mapper.Flush()
	for _, b := range batches {
		g.size.rows += b.Batch.NumRows()
		g.size.cells += b.Batch.NumRows() * b.Batch.NumCols()
		p.profile.Add(b.Table, b.Batch)
		if b.Table.Name == p.stream.Table.Name {
			p.hasher.Add(&p.digest, b.Table, b.Batch)
			p.control = cmp.Or(p.control, controlOf(b.Table, b.Batch))
		}
	}
	batches, kept, err := p.shaper.Shape(batches)
	if err != nil {
		return fmt.Errorf("%s: %w", p.stream.Name, err)
	}
	p.takeLeft(g)
	for _, b := range batches {
		batch.Share(b.Batch)
		if b.Table.Name == p.stream.Table.Name {
			g.rows += b.Batch.NumRows()
			p.met.Store(b)
			if err := p.parents.AddRows(b.Table, b.Batch); err != nil {
				return fmt.Errorf("%s: %w", p.stream.Name, err)
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
	p.met.Add(rejects...)
	p.met.Add(kept...)
	p.refused.add(rejects)
	p.refused.add(kept)
	p.parents.Refuse(rejects)
	p.parents.Refuse(kept)
	p.total.filtered = p.shaper.Filtered()
	p.total.fetched = p.mapper.Fetched() - p.total.filtered
	p.total.clashes, p.total.repeats = p.clash, p.mapper.Repeats()
	p.total.beyond = p.mapper.BeyondLimit()
	p.total.rejected = p.mapper.Rejected() + p.shaper.Rejected()
	return nil
}
