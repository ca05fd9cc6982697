package parquet

import (
	"context"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

const (
	smallRows  = 32 << 10 // rows of a segment that is merged with its like
	fewOfASize = 8        // of a size that stay by themselves
	manyLarge  = 512      // large ones that stay by themselves
)

// compact merges small segments: when there are eight of a size, eight times
// as many rows apart from the next, they become one. A row is so written again
// only a few times in its life, and a table never has many small files.
func (x *tx) compact(ctx context.Context) error {
	tables := map[string]bool{}
	for _, s := range x.next.Segments {
		tables[s.Table] = true
	}
	for _, t := range x.next.Tables {
		if !tables[t.Name] || t.Name == load.State.Name {
			continue
		}
		for {
			like := alike(t, x.next.of(t.Name))
			if like == nil {
				break
			}
			if err := x.unite(ctx, t, like); err != nil {
				return err
			}
		}
	}
	return nil
}

// sizeOf is the logarithm, by eight, of a segment's rows.
func sizeOf(s *segment) int {
	if s.root().Rows >= smallRows {
		return -1
	}
	return bits.Len64(uint64(s.root().Rows)) / 3
}

// alike are segments of one size, and one partition, of which there are too
// many; nil where there are none. Versions stay in the order in which they were
// written.
func alike(t *table, segs []*segment) []*segment {
	type class struct {
		part string
		size int
	}
	all := map[class][]*segment{}
	for i, s := range segs {
		c := class{s.Part, sizeOf(s)}
		versions := t.Mode == schemas.Append || t.Mode == schemas.History
		if versions && i > 0 && (class{segs[i-1].Part, sizeOf(segs[i-1])}) != c {
			all[c] = nil // what lies between would be overtaken
		}
		all[c] = append(all[c], s)
		limit := fewOfASize
		if c.size < 0 {
			limit = manyLarge
		}
		if len(all[c]) >= limit {
			return all[c][:fewOfASize]
		}
	}
	return nil
}

// unite makes one segment of several, rows after rows.
func (x *tx) unite(ctx context.Context, t *table, segs []*segment) error {
	x.next.Counter++
	out := &segment{ID: x.next.Counter, Table: t.Name, Part: segs[0].Part, Files: map[string]*file{}}
	for _, c := range append([]*table{t}, x.next.children(t.Name)...) {
		var files []*file
		for _, s := range segs {
			if f := s.Files[c.Name]; f != nil {
				files = append(files, f)
			}
		}
		if len(files) == 0 {
			continue
		}
		part := ""
		if c == t {
			part = out.Part
		}
		f, err := x.join(ctx, c, files, part)
		if err != nil {
			return err
		}
		out.Files[c.Name] = f
	}
	if err := x.uniteBits(ctx, segs, out); err != nil {
		return err
	}
	merged := map[*segment]bool{}
	for _, s := range segs {
		merged[s] = true
	}
	kept := x.next.Segments[:0:0]
	for _, s := range x.next.Segments {
		if s == segs[len(segs)-1] {
			kept = append(kept, out)
		} else if !merged[s] {
			kept = append(kept, s)
		}
	}
	x.next.Segments = kept
	return nil
}

// join writes the rows of several files of a table into one.
func (x *tx) join(ctx context.Context, t *table, files []*file, part string) (*file, error) {
	w, err := x.create(t, part)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		err := f.read(ctx, t, nil, func(_ int64, columns []arrow.Array, rows int) error { return w.add(columns, rows) })
		if err != nil {
			w.abandon()
			return nil, err
		}
	}
	return w.finish(ctx)
}

// uniteBits keeps what the pass has carried of segments that become one.
func (x *tx) uniteBits(ctx context.Context, segs []*segment, out *segment) error {
	if load.IsInternal(out.Table) {
		return nil
	}
	all := newBitset(out.root().Rows)
	first := uint32(0)
	for _, s := range segs {
		b, err := x.carried(ctx, s)
		if err != nil {
			return err
		}
		for i := range uint32(s.root().Rows) {
			if b.has(i) {
				all.set(first + i)
			}
		}
		first += uint32(s.root().Rows)
		delete(x.bits, s.ID)
	}
	x.bits[out.ID] = all
	return nil
}
