package transform

import (
	"bytes"
	"math/bits"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform/jsonscan"
)

// mask drops and masks columns. The masked values become part of the hash of each record.
func (w *work) mask() {
	for _, t := range w.tables {
		for _, st := range t.steps {
			k := st.rule
			switch {
			case k == nil || t.arrays[st.column] == nil:
			case k.Drop:
				t.arrays[st.column] = nil
			default:
				if k.Masked() {
					w.maskColumn(t, st)
				}
				if k.Rename != "" {
					w.mark(t, st.column, "rename "+st.path+" "+k.Rename)
				}
			}
		}
	}
}

func (w *work) maskColumn(t *openBatch, st step) {
	src := w.view(t, st.column)
	if t == w.root && slices.Contains(t.keys, st.column) {
		w.keysChanged = true
	}
	dst := newVector(w.m.tables.mem, t.types[st.column])
	dst.rowHint = t.rows
	text := opaqueMask{redactor: redactor{rules: w.m.tables.rules}, at: w.m.tables.rules.place(t.node.path + schemas.Source(st.field))}
	seed := xxh3.HashString("mask " + st.path)
	var value []byte
	for row := range t.rows {
		if src.null(row) {
			continue
		}
		if src.kind == kindJSON {
			dst.putBytes(row, text.cell(src.cell(row)))
		} else if !st.rule.copy(dst, row, src, row) {
			continue
		}
		value = dst.appendCanonical(value[:0], row)
		if isNothing(value) {
			continue // the mapper has already hashed it
		}
		w.add(t, row, xxh3.HashSeed(value, seed^w.position(t, row)))
	}
	t.put(st.column, dst.finish(t.rows))
}

type opaqueMask struct {
	redactor
	at          *place
	padded, out []byte
}

func (x *opaqueMask) cell(v []byte) []byte {
	x.padded = jsonscan.Pad(append(x.padded[:0], v...))
	x.out, _ = x.value(x.out[:0], x.padded, 0, x.at, 0)
	return x.out
}

func (k *fieldRule) copy(dst *vector, row int, src *vector, from int) bool {
	switch src.kind {
	case kindText:
		var ok bool
		if dst.scratch, ok = k.maskText(dst.scratch[:0], src.cell(from)); ok {
			dst.putBytes(row, dst.scratch)
		}
		return ok
	case kindList:
		dst.at(row)
		for i := src.offsets[from]; i < src.offsets[from+1]; i++ {
			if !src.elem.null(int(i)) {
				k.copy(dst.elem, dst.items, src.elem, int(i))
			}
			dst.items++
		}
		dst.offsets[row+1] = int32(dst.items)
		dst.set(row)
		return true
	}
	return k.round != nil && k.round.copy(dst, row, src, from)
}

func (r *rounding) copy(dst *vector, row int, src *vector, from int) bool {
	if src.kind == kindBool {
		return false
	}
	dst.at(row)
	switch src.kind {
	case kindInt:
		dst.ints[row] = r.int64(src.ints[from])
	case kindTime:
		dst.ints[row] = r.micros(src.ints[from])
	case kindDate:
		dst.dates[row] = r.days(src.dates[from])
	case kindFloat:
		dst.floats[row] = r.float64(src.floats[from])
	case kindDecimal:
		dst.decimals[row] = r.decimal(src.decimals[from], src.whole+src.scale, src.scale)
	}
	dst.set(row)
	return true
}

// In a canonical spelling, these bytes mark the beginning of a list and a missing value.
const (
	listMark    = 1
	nothingMark = 2
)

func isNothing(v []byte) bool {
	return len(v) > 0 && len(bytes.Trim(v, "\x00\x01\x02")) == 0
}

// appendCanonical appends a spelling of the value that is the same in every column type that can hold the value.
func (c *vector) appendCanonical(dst []byte, row int) []byte {
	switch c.kind {
	case kindDecimal:
		from := len(dst)
		dst = append(dst, c.decimals[row].ToString(c.scale)...)
		if bytes.IndexByte(dst[from:], '.') >= 0 {
			dst = bytes.TrimRight(bytes.TrimRight(dst, "0"), ".")
		}
		return dst
	case kindJSON:
		return appendCanonicalJSON(dst, c.cell(row))
	case kindFloat:
		return strconv.AppendFloat(dst, c.floats[row], 'f', -1, 64)
	case kindList:
		dst = append(dst, listMark)
		for i := c.offsets[row]; i < c.offsets[row+1]; i++ {
			if c.elem.null(int(i)) {
				dst = append(dst, nothingMark, 0)
				continue
			}
			dst = append(c.elem.appendCanonical(dst, int(i)), 0)
		}
		return dst
	}
	return c.appendText(dst, row)
}

func appendCanonicalJSON(dst []byte, v jsontext.Value) []byte {
	switch v.Kind() {
	case 'n':
		return append(dst, nothingMark)
	case '"':
		dst, _ = jsontext.AppendUnquote(dst, v)
		return dst
	case '[':
		dst = append(dst, listMark)
		for _, item := range itemsOf(v) {
			dst = append(appendCanonicalJSON(dst, item), 0)
		}
		return dst
	}
	return append(dst, v...)
}

func (w *work) mark(t *openBatch, column int, what string) {
	src := w.view(t, column)
	h := xxh3.HashString(what)
	for row := range t.rows {
		if !src.null(row) {
			w.add(t, row, h^w.position(t, row))
		}
	}
}

func (w *work) add(t *openBatch, row int, h uint64) {
	if w.sums == nil {
		w.sums = make([]sum, w.root.rows)
	}
	w.sums[t.recordOf(row)].add(h)
}

// position returns a number that differs between the rows of one record in one table. It depends on the array
// positions of the row and of its parents.
func (w *work) position(t *openBatch, row int) uint64 {
	if t.node.parent == nil {
		return 0
	}
	p := uint64(t.place.ints[row]) + 1
	if t.node.level > 1 {
		p ^= bits.RotateLeft64(xxh3.Hash(t.parents(row)), 17)
	}
	return p * 0x9e3779b97f4a7c15
}

// parents returns the array positions of the parents of a row. /0/2 means element 2 in the array of element 0.
func (t *openBatch) parents(row int) []byte {
	if t.node.level < 2 {
		return nil
	}
	path := t.parent.cell(row)
	at := len(path)
	for range t.node.level - 1 {
		at = bytes.LastIndexByte(path[:at], '/')
	}
	return path[at:]
}
