package transform

import (
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
)

// kind says how a column stores its values. It follows from the column's type.
type kind uint8

const (
	kindNone  kind = iota // no type yet; nothing is stored
	kindStale             // the type was just widened; nothing is stored until the pages of the batch are read again
	kindBool
	kindInt
	kindDecimal
	kindFloat
	kindDate
	kindTime
	kindText
	kindJSON
	kindList
)

func kindOf(t arrow.DataType) kind {
	switch t := t.(type) {
	case *schemas.JSONType:
		return kindJSON
	case *arrow.BooleanType:
		return kindBool
	case *arrow.Int64Type:
		return kindInt
	case *arrow.Decimal128Type:
		return kindDecimal
	case *arrow.Float64Type:
		return kindFloat
	case *arrow.Date32Type:
		return kindDate
	case *arrow.TimestampType:
		return kindTime
	case *arrow.StringType:
		return kindText
	case *arrow.ListType:
		if t.Elem().ID() != arrow.NULL {
			return kindList
		}
	}
	return kindNone
}

func (k kind) width() int {
	switch k {
	case kindInt, kindTime, kindFloat:
		return 8
	case kindDecimal:
		return 16
	case kindDate, kindText, kindJSON, kindList:
		return 4
	}
	return 0
}

// vector collects the values of a column in buffers, which Arrow takes over. A row without a value costs nothing until
// a later row has a value. Then the method at() fills the rows between them with nulls. Only vectors with nulls have a
// validity bitmap.
type vector struct {
	mem  memory.Allocator
	typ  arrow.DataType // a type of the lattice in package schemas
	kind kind
	n    int // number of rows up to the last row with a value
	room int

	used  int
	data  []byte // texts, one after another
	valid []byte // validity bitmap; nil: no row is null

	// At most one of these slices is used. The kind determines which one. The slice uses the memory of the buffer in
	// the field `fixed`.
	ints     []int64
	decimals []decimal128.Num
	floats   []float64
	dates    []int32
	offsets  []int32 // for texts and lists: row i ends at offsets[i+1]
	bits     []byte
	fixed    []byte

	elem  *vector // elements, for a list
	items int     // number of elements in all rows, for a list

	scale  int32 // for decimals: digits after the point
	whole  int32 // for decimals: digits before the point
	anyInt bool  // for decimals: any integer is accepted

	scratch           []byte
	rowHint, byteHint int // sizes of the last batch, used as estimates
}

func newVector(mem memory.Allocator, t arrow.DataType) *vector {
	c := &vector{mem: mem, typ: t}
	c.settle()
	return c
}

const firstRoom = 64

// settle prepares the vector for values of its current type. It drops the stored values.
func (c *vector) settle() {
	k := kindOf(c.typ)
	if k != c.kind {
		c.free()
	}
	c.clear()
	c.kind = k
	switch t := c.typ.(type) {
	case *arrow.Decimal128Type:
		c.scale, c.whole = t.Scale, t.Precision-t.Scale
		c.anyInt = c.whole >= 19
	case *arrow.ListType:
		if k != kindList {
			break
		}
		if c.elem == nil {
			c.elem = &vector{mem: c.mem}
		}
		c.elem.typ = t.Elem()
		c.elem.settle()
	}
}

func isDecimal(t arrow.DataType) bool { return t != nil && t.ID() == arrow.DECIMAL128 }

func (c *vector) clear() {
	c.n, c.used, c.items = 0, 0, 0
	c.release(&c.valid)
	clear(c.bits)
	if c.elem != nil {
		c.elem.clear()
	}
}

func (c *vector) free() {
	c.release(&c.fixed)
	c.release(&c.data)
	c.release(&c.valid)
	c.room, c.used = 0, 0
	c.view()
	if c.elem != nil {
		c.elem.free()
		c.elem = nil
	}
}

func (c *vector) release(b *[]byte) {
	if *b != nil {
		c.mem.Free(*b)
		*b = nil
	}
}

// The method at() prepares the column for writing a value into the given row. Earlier rows without a value become null.
func (c *vector) at(row int) {
	if row != c.n || row >= c.room {
		c.prepareRow(row)
	}
}

func (c *vector) prepareRow(row int) {
	if row >= c.room {
		c.grow(row)
	}
	if row > c.n {
		c.pad(row)
	}
}

func (c *vector) pad(row int) {
	if c.valid == nil {
		c.valid = c.bitmap()
		setBits(c.valid, c.n)
	}
	if c.offsets != nil {
		end := c.offsets[c.n]
		fill(c.offsets[c.n+1:row+1], end)
	} else {
		w := c.kind.width()
		clear(c.fixed[c.n*w : row*w])
	}
	c.n = row
}

func fill(s []int32, v int32) {
	for i := range s {
		s[i] = v
	}
}

func (c *vector) set(row int) {
	if c.valid != nil {
		c.valid[row>>3] |= 1 << (row & 7)
	}
	c.n = row + 1
}

func (c *vector) has(row int) bool { return c.n == row+1 }

func (c *vector) null(row int) bool {
	return row >= c.n || c.valid != nil && c.valid[row>>3]&(1<<(row&7)) == 0
}

func (c *vector) grow(row int) {
	room := max(firstRoom, c.rowHint, 2*c.room, row+1)
	room = (room + 63) &^ 63
	c.resize(&c.fixed, c.fixedBytes(room))
	if c.valid != nil {
		old := len(c.valid)
		c.resize(&c.valid, room/8)
		clear(c.valid[old:])
	}
	begun := c.room > 0
	if c.kind == kindBool {
		clear(c.fixed[c.room/8:])
	}
	c.room = room
	c.view()
	if c.offsets != nil && !begun {
		c.offsets[0] = 0
	}
}

func (c *vector) fixedBytes(room int) int {
	switch w := c.kind.width(); {
	case c.kind == kindBool:
		return room / 8
	case c.kind == kindText || c.kind == kindJSON || c.kind == kindList:
		return (room + 1) * w
	default:
		return room * w
	}
}

func (c *vector) resize(b *[]byte, size int) {
	if *b == nil {
		*b = c.mem.Allocate(size)
		return
	}
	*b = c.mem.Reallocate(size, *b)
}

func (c *vector) view() {
	c.ints, c.decimals, c.floats, c.dates, c.offsets, c.bits = nil, nil, nil, nil, nil, nil
	if c.fixed == nil {
		return
	}
	switch c.kind {
	case kindInt, kindTime:
		c.ints = arrow.Int64Traits.CastFromBytes(c.fixed)
	case kindDecimal:
		c.decimals = arrow.Decimal128Traits.CastFromBytes(c.fixed)
	case kindFloat:
		c.floats = arrow.Float64Traits.CastFromBytes(c.fixed)
	case kindDate:
		c.dates = arrow.Int32Traits.CastFromBytes(c.fixed)
	case kindBool:
		c.bits = c.fixed
	default:
		c.offsets = arrow.Int32Traits.CastFromBytes(c.fixed)
	}
}

func (c *vector) bitmap() []byte {
	b := c.mem.Allocate(c.room / 8)
	clear(b)
	return b
}

// stretch makes room for at least n bytes of text after the bytes of data that are already in use.
func (c *vector) stretch(used, n int) {
	size := max(2*len(c.data), c.byteHint, used+n, firstRoom*8)
	c.resize(&c.data, (size+63)&^63)
}

func (c *vector) truncate(row int) {
	if c.n <= row {
		return
	}
	if c.kind <= kindStale {
		c.n = row
		return
	}
	clearBits(c.valid, row, c.n)
	clearBits(c.bits, row, c.n)
	switch c.kind {
	case kindText, kindJSON:
		c.used = int(c.offsets[row])
	case kindList:
		c.items = int(c.offsets[row])
		c.elem.truncate(c.items)
	}
	c.n = row
}

// bytes returns the size of the column. For each element of a list, it adds the memory that a destination needs.
// Otherwise, a list of empty texts would look small, because such a text takes three bytes in the page and none in the
// column.
func (c *vector) bytes() int64 {
	if c.kind <= kindStale {
		return 0
	}
	size := c.n*c.kind.width() + c.used
	if c.elem != nil {
		return int64(size) + c.elem.bytes() + int64(c.items)*elementBytes
	}
	return int64(size)
}

func setBits(b []byte, n int) {
	for i := range b[:n>>3] {
		b[i] = 0xff
	}
	if n&7 != 0 {
		b[n>>3] |= 1<<(n&7) - 1
	}
}

func clearBits(b []byte, begin, end int) {
	if b == nil {
		return
	}
	for ; begin < end; begin++ {
		b[begin>>3] &^= 1 << (begin & 7)
	}
}

func countBits(b []byte, n int) int {
	count := 0
	for _, v := range b[:n>>3] {
		count += bits.OnesCount8(v)
	}
	if n&7 != 0 {
		count += bits.OnesCount8(b[n>>3] & (1<<(n&7) - 1))
	}
	return count
}
