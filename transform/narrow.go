package transform

import (
	"bytes"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform/jsonscan"
)

type narrowed struct {
	array      arrow.Array
	misfit     []bool  // for each row: the value does not fit the type, so null is stored
	minusZeros []int32 // rows in which a negative zero was stored as zero
}

// narrow stores the values of a column in the type of the destination, if they fit. The spelling of a number and its
// quotes do not matter. So the result does not depend on the type to which other values have widened the column.
// Invariant 8
func (w *work) narrow(t *openBatch, st step) narrowed {
	src := w.view(t, st.column)
	dst := newVector(w.m.tables.mem, st.known)
	var n narrower
	if c := t.node.sources[schemas.Source(st.field)]; c != nil {
		n.declared = c.declared
	}
	out := narrowed{misfit: make([]bool, t.rows)}
	for row := range t.rows {
		if src.null(row) {
			continue
		}
		n.minusZero = false
		out.misfit[row] = !n.store(dst, row, src, row)
		if n.minusZero {
			out.minusZeros = append(out.minusZeros, int32(row))
		}
	}
	out.array = dst.finish(t.rows)
	return out
}

type narrower struct {
	declared  arrow.DataType // type that the stream declares for the column; may be nil
	text      []byte
	minusZero bool
}

func (n *narrower) store(dst *vector, row int, src *vector, from int) bool {
	switch src.kind {
	case kindList:
		begin, end := int(src.offsets[from]), int(src.offsets[from+1])
		return n.list(dst, row, end-begin, func(i int) bool {
			return src.elem.null(begin+i) || n.store(dst.elem, dst.items, src.elem, begin+i)
		})
	case kindJSON:
		return n.json(dst, row, src.cell(from))
	}
	n.text = src.appendText(n.text[:0], from)
	return n.scalar(dst, row, n.text)
}

func (n *narrower) list(dst *vector, row, size int, element func(i int) bool) bool {
	if dst.kind != kindList {
		return size == 0
	}
	dst.at(row)
	first := dst.items
	for i := range size {
		if !element(i) {
			dst.items = first
			dst.elem.truncate(first)
			return false
		}
		dst.items++
	}
	dst.offsets[row+1] = int32(dst.items)
	dst.set(row)
	return true
}

func (n *narrower) json(dst *vector, row int, cell jsontext.Value) bool {
	switch cell.Kind() {
	case '{':
		return false
	case '"':
		n.text, _ = jsontext.AppendUnquote(n.text[:0], cell)
		return n.scalar(dst, row, n.text)
	case '[':
		items := itemsOf(cell)
		return n.list(dst, row, len(items), func(i int) bool {
			return items[i].Kind() == 'n' || items[i].Kind() != '[' && n.json(dst.elem, dst.items, items[i])
		})
	}
	return n.scalar(dst, row, bytes.TrimSpace(cell))
}

func itemsOf(array jsontext.Value) (items []jsontext.Value) {
	d := jsontext.NewDecoder(bytes.NewBuffer(array))
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() != ']' {
		var v jsontext.Value
		if v, err = d.ReadValue(); err == nil {
			items = append(items, v.Clone())
		}
	}
	return items
}

func (n *narrower) scalar(dst *vector, row int, text []byte) bool {
	switch dst.kind {
	case kindText:
		dst.putBytes(row, text)
		return true
	case kindBool:
		return n.bool(dst, row, text)
	case kindDate:
		v, ok := jsonscan.ParseDate(text)
		if ok {
			dst.at(row)
			dst.dates[row] = v
			dst.set(row)
		}
		return ok
	case kindTime:
		v, ok := jsonscan.ParseTime(text)
		if ok {
			dst.at(row)
			dst.ints[row] = v
			dst.set(row)
			return true
		}
	case kindInt, kindDecimal, kindFloat:
		return jsonscan.IsNumber(text) && n.number(dst, row, text)
	}
	return false
}

func (n *narrower) bool(dst *vector, row int, text []byte) bool {
	v, ok := string(text) == "true", string(text) == "true" || string(text) == "false"
	if !ok && n.declared != nil && n.declared.ID() == arrow.BOOL {
		v, ok = flag(text)
	}
	if ok {
		dst.putBool(row, v)
	}
	return ok
}

func (n *narrower) number(dst *vector, row int, text []byte) bool {
	v := jsonscan.ParseNumeral(text, nil)
	v.Trim()
	switch dst.kind {
	case kindInt:
		i, ok := v.Int64()
		if ok {
			dst.at(row)
			dst.ints[row] = i
			dst.set(row)
		}
		n.minusZero = n.minusZero || ok && v.MinusZero()
		return ok
	case kindFloat:
		f, ok := v.Float()
		if ok {
			dst.at(row)
			dst.floats[row] = f
			dst.set(row)
		}
		return ok
	}
	if v.Scale > int(dst.scale) || v.Whole() > int(dst.whole) {
		return false
	}
	dst.at(row)
	dst.decimals[row] = decimal128.New(v.Int128(dst.scale))
	dst.set(row)
	n.minusZero = n.minusZero || v.MinusZero()
	return true
}
