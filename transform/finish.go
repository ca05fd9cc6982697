package transform

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
)

// finish returns an array that takes over the buffers of the column. Afterwards the column is empty.
func (c *vector) finish(rows int) arrow.Array {
	data := c.finishData(rows)
	defer data.Release()
	return array.MakeFromData(data)
}

func (c *vector) finishData(rows int) arrow.ArrayData {
	if rows > c.room || c.room == 0 {
		c.grow(max(0, rows-1))
	}
	if rows > c.n {
		c.pad(rows)
	}
	nulls := 0
	if c.valid != nil {
		nulls = rows - countBits(c.valid, rows)
	}
	buffers := []*memory.Buffer{c.toBuffer(&c.valid), c.toBuffer(&c.fixed)}
	var children []arrow.ArrayData
	switch c.kind {
	case kindText, kindJSON:
		c.byteHint = c.used + c.used/8
		if c.data == nil {
			c.stretch(0, 1)
		}
		buffers = append(buffers, c.toBuffer(&c.data))
	case kindList:
		elements := c.elem.finishData(c.items)
		defer elements.Release()
		children = append(children, elements)
	}
	c.rowHint = rows + rows/8
	data := array.NewData(storage(c.typ), rows, buffers, children, nulls, 0)
	for _, b := range buffers {
		if b != nil {
			b.Release()
		}
	}
	c.room, c.n, c.used, c.items = 0, 0, 0, 0
	c.view()
	return data
}

func (c *vector) toBuffer(b *[]byte) *memory.Buffer {
	if *b == nil {
		return nil
	}
	buf := memory.NewBufferWithAllocator(*b, c.mem)
	*b = nil
	return buf
}

func storage(t arrow.DataType) arrow.DataType {
	if kindOf(t) == kindJSON {
		return schemas.Text
	}
	return t
}

func (t *table) discard() {
	for _, c := range t.columns {
		c.free()
	}
	for _, child := range t.children {
		child.discard()
	}
}
