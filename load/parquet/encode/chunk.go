package encode

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	pqfile "github.com/apache/arrow-go/v18/parquet/file"
)

type chunk struct {
	*encoder
	pages pqfile.PageWriter
	leaf  leaf
	as    parquet.Encoding
	list  bool
	top   uint8 // definition level of a value that is not null
	holes int   // number of values in the current page whose level is below top: nulls and empty lists
	nulls int64
}

func (x *chunk) useDictionary(t arrow.DataType, parts []arrow.Array) error {
	d := newDictionary(t, x.tools)
	if d == nil {
		return nil
	}
	full := false
	for _, p := range parts {
		spans(p, 0, p.Len(), func(a arrow.Array, from, to int) { full = full || !d.fill(a, from, to) })
	}
	if full || d.values == 0 {
		d.plain.encode(nil) // discard the values collected so far
		return nil
	}
	data := d.plain.encode(nil)
	_, err := x.pages.WriteDictionaryPage(pqfile.NewDictionaryPage(memory.NewBufferBytes(data), int32(d.values), parquet.Encodings.Plain))
	x.leaf, x.as = d, parquet.Encodings.RLEDict
	return err
}

// spans calls the function visit with ranges of values. For a column of lists, the values are the elements of the
// lists; elements of null lists are skipped. For any other column, there is one range.
func spans(a arrow.Array, from, to int, visit func(values arrow.Array, from, to int)) {
	l, ok := a.(*array.List)
	if !ok {
		visit(a, from, to)
		return
	}
	var start, end int64
	for i := from; i < to; i++ {
		if l.IsNull(i) {
			continue
		}
		first, next := l.ValueOffsets(i)
		if first != end {
			visit(l.ListValues(), int(start), int(end))
			start = first
		}
		end = next
	}
	visit(l.ListValues(), int(start), int(end))
}

func (x *chunk) write(parts []arrow.Array) error {
	for _, p := range parts {
		for from := 0; from < p.Len(); from += sliceRows {
			to := min(from+sliceRows, p.Len())
			x.level(p, from, to)
			spans(p, from, to, x.leaf.take)
			if x.leaf.size()+len(x.tools.defs)/8 < wholePage {
				continue
			}
			if err := x.flush(); err != nil {
				return err
			}
		}
	}
	return x.flush()
}

func (x *chunk) level(a arrow.Array, from, to int) {
	l, ok := a.(*array.List)
	if !ok {
		x.tools.defs = x.mark(x.tools.defs, a, from, to, x.top)
		return
	}
	values := l.ListValues()
	for i := from; i < to; i++ {
		first, next := l.ValueOffsets(i)
		if l.IsNull(i) || first == next {
			has := uint8(1)
			if l.IsNull(i) {
				has = 0
			}
			x.tools.reps, x.tools.defs = append(x.tools.reps, 0), append(x.tools.defs, has)
			x.holes++
			continue
		}
		x.tools.reps = append(x.tools.reps, 0)
		for range next - first - 1 {
			x.tools.reps = append(x.tools.reps, 1)
		}
		x.tools.defs = x.mark(x.tools.defs, values, int(first), int(next), x.top)
	}
}

// mark appends the level of each value: top, or top-1 if the value is null.
func (x *chunk) mark(levels []uint8, a arrow.Array, from, to int, top uint8) []uint8 {
	whole := a.NullN() == 0
	for i := from; i < to; i++ {
		if whole || a.IsValid(i) {
			levels = append(levels, top)
			continue
		}
		levels = append(levels, top-1)
		x.holes++
	}
	return levels
}

func (x *chunk) flush() error {
	n := len(x.tools.defs)
	if n == 0 {
		return nil
	}
	page := x.tools.page[:0]
	if x.list {
		page = appendLevels(page, x.tools.reps, 1)
	}
	page = x.leaf.encode(appendLevels(page, x.tools.defs, x.top))
	x.tools.packed = x.tools.zstd.EncodeAll(page, x.tools.packed[:0])
	x.nulls += int64(x.holes)
	x.tools.page, x.tools.reps, x.tools.defs, x.holes = page, x.tools.reps[:0], x.tools.defs[:0], 0
	p := pqfile.NewDataPageV1(memory.NewBufferBytes(x.tools.packed), int32(n), x.as, parquet.Encodings.RLE, parquet.Encodings.RLE, int32(len(page)))
	defer p.Release()
	_, err := x.pages.WriteDataPage(p)
	return err
}
