package transform

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// emptyColumns makes the arrays of columns that have no value in a batch. In a wide table, most columns are empty.
// Their arrays share one buffer of zeros. // Invariant 6
type emptyColumns struct{ zeros *memory.Buffer }

func (z *emptyColumns) array(c *column, rows int) arrow.Array {
	if size := (rows + 1) * max(1, c.kind.width()); z.zeros == nil || z.zeros.Len() < size {
		z.zeros = memory.NewBufferBytes(make([]byte, size))
	}
	buffers := []*memory.Buffer{z.zeros, z.zeros}
	var children []arrow.ArrayData
	switch c.kind {
	case kindText, kindJSON:
		buffers = append(buffers, z.zeros)
	case kindList:
		elements := c.elem.finishData(0)
		defer elements.Release()
		children = append(children, elements)
	}
	c.empty = false
	data := array.NewData(storage(c.typ), rows, buffers, children, rows, 0)
	defer data.Release()
	return array.MakeFromData(data)
}
