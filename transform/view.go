package transform

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// viewOf returns a column for reading an array. This package must have made the array for a column of type typ. The
// column is valid as long as the array.
func viewOf(a arrow.Array, typ arrow.DataType, mem memory.Allocator) *vector {
	return viewData(a.Data(), typ, mem)
}

func viewData(d arrow.ArrayData, typ arrow.DataType, mem memory.Allocator) *vector {
	c := &vector{mem: mem, typ: typ, kind: kindOf(typ), n: d.Len()}
	b := d.Buffers()
	if d.NullN() != 0 && b[0] != nil {
		c.valid = b[0].Bytes()
	}
	if len(b) > 1 && b[1] != nil {
		c.fixed = b[1].Bytes()
	}
	if len(b) > 2 && b[2] != nil {
		c.data = b[2].Bytes()
	}
	switch t := typ.(type) {
	case *arrow.Decimal128Type:
		c.scale, c.whole = t.Scale, t.Precision-t.Scale
	case *arrow.ListType:
		c.elem = viewData(d.Children()[0], t.Elem(), mem)
	}
	c.view()
	return c
}
