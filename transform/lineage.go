package transform

import (
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
)

type lineage struct {
	table   *table
	parent  *lineage // nil if the parent is the root table
	rootRow []int32  // for each row, the row of its record in the root table
	index   []int32  // for each row, its position in the parent's array

	hash arrow.Array
	own  []arrow.Array // parent, index, root, ordinal
}

func lineages(below []*lineage, t *table, parent *lineage) []*lineage {
	if t.rows == 0 {
		return below
	}
	l := &lineage{table: t, parent: parent, rootRow: t.parentRow, index: t.position}
	if parent != nil {
		l.rootRow = make([]int32, t.rows)
		for i, p := range t.parentRow {
			l.rootRow[i] = parent.rootRow[p]
		}
	}
	below = append(below, l)
	for _, child := range t.children {
		below = lineages(below, child, l)
	}
	return below
}

func (l *lineage) finish(own *rootColumns, keys *vector) {
	l.hash = gather(own.hash, l.rootRow)
	key := gather(keys, l.rootRow)
	index := l.indexColumn(keys.mem).finish(l.table.rows)
	if l.parent == nil {
		l.own = []arrow.Array{key, index}
	} else {
		l.own = []arrow.Array{l.parents(keys), index, key}
	}
	l.own = append(l.own, gather(own.ordinal, l.rootRow))
}

func (l *lineage) indexColumn(mem memory.Allocator) *vector {
	c := newVector(mem, schemas.Int64)
	c.rowHint = len(l.index)
	c.grow(len(l.index) - 1)
	for i, at := range l.index {
		c.ints[i] = int64(at)
	}
	c.n = len(l.index)
	return c
}

func (l *lineage) parents(keys *vector) arrow.Array {
	c := newVector(keys.mem, schemas.Text)
	var buf []byte
	for row, p := range l.table.parentRow {
		buf = l.parent.path(buf[:0], int(p), keys)
		c.putBytes(row, buf)
	}
	return c.finish(l.table.rows)
}

// path appends the key of the record, and then, for each level of nested arrays, the position in the array. The parts
// are separated by slashes: 17/0/2.
func (l *lineage) path(dst []byte, row int, keys *vector) []byte {
	if l.parent == nil {
		dst = keys.appendText(dst, int(l.rootRow[row]))
	} else {
		dst = l.parent.path(dst, int(l.table.parentRow[row]), keys)
	}
	dst = append(dst, '/')
	return strconv.AppendInt(dst, int64(l.index[row]), 10)
}

func gather(src *vector, rows []int32) arrow.Array {
	dst := newVector(src.mem, src.typ)
	dst.rowHint = len(rows)
	dst.byteHint = src.used / max(1, src.n) * len(rows)
	for row, from := range rows {
		if !src.null(int(from)) {
			dst.copyFrom(row, src, int(from))
		}
	}
	return dst.finish(len(rows))
}

func (c *vector) copyFrom(row int, src *vector, from int) {
	switch c.kind {
	case kindText, kindJSON:
		c.putBytes(row, src.cell(from))
		return
	case kindList:
		c.at(row)
		for i := src.offsets[from]; i < src.offsets[from+1]; i++ {
			if !src.elem.null(int(i)) {
				c.elem.copyFrom(c.items, src.elem, int(i))
			}
			c.items++
		}
		c.offsets[row+1] = int32(c.items)
		c.set(row)
		return
	case kindBool:
		c.putBool(row, src.bits[from>>3]&(1<<(from&7)) != 0)
		return
	}
	c.at(row)
	w := c.kind.width()
	copy(c.fixed[row*w:(row+1)*w], src.fixed[from*w:])
	c.set(row)
}

func (c *vector) cell(row int) []byte { return c.data[c.offsets[row]:c.offsets[row+1]] }
