package pipeline

import (
	"cmp"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// flush moves what the mapper has buffered into the group, in the shape that
// the stream's rules give it. What a pass has found is told by the records as
// they came: a filter makes no list shorter.
func (p *pass) flush() error {
	g := p.group
	bytes := p.mapper.Bytes()
	g.bytes, g.batched = g.bytes+bytes, g.batched+bytes
	defer p.settle()
	batches, rejects := p.mapper.Flush()
	for _, b := range batches {
		p.profile.add(b.Table, b.Batch)
		if b.Table.Name == p.stream.Table.Name {
			p.hasher.add(&p.digest, b.Table, b.Batch)
			p.control = cmp.Or(p.control, controlOf(b.Table, b.Batch))
		}
	}
	batches, kept, err := p.shaper.Shape(batches)
	if err != nil {
		return fmt.Errorf("%s: %w", p.stream.Name, err)
	}
	p.takeLeft(g)
	for _, b := range batches {
		share(b.Batch)
		if b.Table.Name == p.stream.Table.Name {
			g.rows += b.Batch.NumRows()
			p.met.store(b)
			if err := p.kin.carry(b.Table, b.Batch); err != nil {
				return fmt.Errorf("%s: %w", p.stream.Name, err)
			}
		}
	}
	g.batches = append(g.batches, batches...)
	g.rejects = append(append(g.rejects, rejects...), kept...)
	p.met.add(rejects...)
	p.met.add(kept...)
	p.refused.add(rejects)
	p.refused.add(kept)
	p.kin.refuse(rejects)
	p.kin.refuse(kept)
	p.total.filtered = p.shaper.Filtered()
	p.total.fetched = p.mapper.Fetched() - p.total.filtered
	p.total.clashes, p.total.repeats = p.clash, p.mapper.Repeats()
	p.total.beyond = p.mapper.Beyond()
	p.total.rejected = p.mapper.Rejected() + p.shaper.Rejected()
	return nil
}

// share readies a batch for several destinations at once: arrays count their
// nulls when they are first asked for them.
func share(b arrow.RecordBatch) {
	for _, a := range b.Columns() {
		for a.NullN() >= 0 {
			l, ok := a.(*array.List)
			if !ok {
				break
			}
			a = l.ListValues()
		}
	}
}
