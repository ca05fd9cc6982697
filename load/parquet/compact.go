package parquet

import (
	"context"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

const (
	smallRows       = 32 << 10 // segments with fewer rows are merged with segments of the same size class
	mergeCount      = 8        // number of segments that are merged into one
	mergeMixedCount = 16       // from this number of adjacent small segments on, some are merged although their size classes differ
	mergeLargeCount = 512      // from this number of large segments on, some of them are merged too
)

// compact merges eight segments of a size class into one of the next class. So a partition has few small files, and a
// row is rewritten only a few times. Large segments are also merged eight at a time, but only while there are at
// least 512 of them.
func (x *tx) compact(ctx context.Context) error {
	if x.unmerged {
		return nil
	}
	tables := map[string]bool{}
	for _, s := range x.next.Segments {
		tables[s.Table] = true
	}
	for _, t := range x.next.Tables {
		if !tables[t.Name] || t.Name == load.State.Name {
			continue
		}
		for {
			like := mergeable(t, x.next.segmentsOf(t.Name))
			if like == nil {
				break
			}
			if err := x.mergeSegments(ctx, t, like); err != nil {
				return err
			}
		}
		if err := x.limitDeleted(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// sizeOf returns the size class of a segment by its number of rows: 0 for up to 3 rows, 1 for up to 31, 2 for up to
// 255, and so on. It returns -1 for a segment that is not small.
func sizeOf(s *segment) int {
	rows := s.root().stored() // deleted rows count, so that a large file stays large
	if rows >= smallRows {
		return -1
	}
	return bits.Len64(uint64(rows)) / 3
}

// The function mergeable() returns segments of one size class and one partition. For a table that keeps versions, see
// [mergeableVersions].
func mergeable(t *table, segs []*segment) []*segment {
	if t.Mode == schemas.Append || t.Mode == schemas.History {
		return mergeableVersions(segs)
	}
	type class struct {
		part string
		size int
	}
	all := map[class][]*segment{}
	for _, s := range segs {
		c := class{s.Part, sizeOf(s)}
		all[c] = append(all[c], s)
		limit := mergeCount
		if c.size < 0 {
			limit = mergeLargeCount
		}
		if len(all[c]) >= limit {
			return all[c][:mergeCount]
		}
	}
	return nil
}

// mergeableVersions returns adjacent segments of one partition, so that versions stay in the order in which they were
// written. If small segments of different size classes alternate, no class has eight adjacent segments. So from 16
// adjacent small segments on, eight of them are merged, whatever their classes are. From 512 adjacent segments on, eight
// are merged whatever their sizes are. // Invariant 6
func mergeableVersions(segs []*segment) []*segment {
	var part, small, like int // where the segments begin that are of this partition, small, and of this size class
	for i, s := range segs {
		size := sizeOf(s)
		if i > 0 {
			before := sizeOf(segs[i-1])
			if segs[i-1].Part != s.Part {
				part, small, like = i, i, i
			}
			if size < 0 || before < 0 {
				small = i
			}
			if size != before {
				like = i
			}
		}
		switch n := i + 1; {
		case size >= 0 && n-like >= mergeCount:
			return segs[like:n]
		case size >= 0 && n-small >= mergeMixedCount:
			return fewestRows(segs[small:n])
		case n-part >= mergeLargeCount:
			return fewestRows(segs[part:n])
		}
	}
	return nil
}

// fewestRows returns the eight adjacent segments that have the fewest rows together.
func fewestRows(segs []*segment) []*segment {
	best, least := 0, int64(math.MaxInt64)
	for i := range len(segs) - mergeCount + 1 {
		rows := int64(0)
		for _, s := range segs[i : i+mergeCount] {
			rows += s.root().stored()
		}
		if rows < least {
			best, least = i, rows
		}
	}
	return segs[best : best+mergeCount]
}

// mergeSegments merges the segments into one. The order of the rows stays the same.
func (x *tx) mergeSegments(ctx context.Context, t *table, segs []*segment) error {
	out := x.next.newSegment(t.Name, segs[0].Part)
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
		f, err := x.concatenate(ctx, c, files, part)
		if err != nil {
			return err
		}
		out.Files[c.Name] = f
	}
	if err := x.seen.merge(ctx, t, segs, out); err != nil {
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

func (x *builder) concatenate(ctx context.Context, t *table, files []*file, part string) (*file, error) {
	return x.file(ctx, t, part, func(w *writer) error {
		for _, f := range files {
			if err := f.read(ctx, t, nil, func(_ int64, columns []arrow.Array, rows int) error { return w.add(columns, rows) }); err != nil {
				return err
			}
		}
		return nil
	})
}
