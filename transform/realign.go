package transform

import (
	"github.com/penstock-data/penstock/schemas"
)

func (w *work) realign() {
	if w.root.rows == 0 {
		return
	}
	if w.sums != nil {
		w.rehash()
	}
	if !w.keysChanged && (w.sums == nil || len(w.root.keys) > 0) {
		return
	}
	keys := w.keys()
	if len(w.root.keys) != 1 {
		defer keys.free()
	}
	for _, t := range w.tables[1:] {
		w.rekey(t, keys)
	}
}

// rehash adds w.sums to the hashes of the records, also in child tables.
func (w *work) rehash() {
	i := w.root.index[schemas.ColHash]
	old := w.view(w.root, i)
	c := newVector(w.m.tables.mem, schemas.Text)
	c.rowHint, c.byteHint = w.root.rows, w.root.rows*hashSize
	var spelled [hashSize]byte
	for row, s := range w.sums {
		s.join(old.cell(row))
		s.write(spelled[:])
		c.putBytes(row, spelled[:])
	}
	w.root.put(i, c.finish(w.root.rows))
	hashes := w.view(w.root, i)
	for _, t := range w.tables[1:] {
		t.put(t.index[schemas.ColHash], gather(hashes, t.rootRow))
	}
}

func (w *work) keys() *vector {
	var columns []*vector
	for _, i := range w.root.keys {
		columns = append(columns, w.view(w.root, i))
	}
	if len(columns) == 1 {
		return columns[0]
	}
	c := newVector(w.m.tables.mem, schemas.Text)
	hashes, ordinals := w.root.own(schemas.ColHash), w.root.own(schemas.ColOrdinal)
	var key []byte
	for row := range w.root.rows {
		if key = key[:0]; len(columns) == 0 {
			key = appendKeyless(key, hashes.cell(row), ordinals.ints[row])
		} else {
			key = appendKey(key, columns, row)
		}
		c.putBytes(row, key)
	}
	return c
}

func (w *work) rekey(t *openBatch, keys *vector) {
	own := schemas.ColParent
	if t.node.level > 1 {
		own = schemas.ColRoot
		c := newVector(w.m.tables.mem, schemas.Text)
		var path []byte
		for row, rootRow := range t.rootRow {
			path = append(keys.appendText(path[:0], int(rootRow)), t.parents(row)...)
			c.putBytes(row, path)
		}
		t.put(t.index[schemas.ColParent], c.finish(t.rows))
	}
	i := t.index[own]
	t.types[i] = storage(keys.typ)
	t.put(i, gather(keys, t.rootRow))
}

// join adds a hash to s. The hash is given as text, in the form that write() produces.
func (s *sum) join(spelled []byte) {
	var v uint64
	for i := range 10 {
		v |= sextet(spelled[i]) << (6 * i)
	}
	last := sextet(spelled[10]) | sextet(spelled[11])<<6
	v |= last << 60
	s.added += v
	s.mixed ^= last >> 4 << 56
}

func sextet(c byte) uint64 {
	switch {
	case c >= 'a':
		return uint64(c-'a') + 26
	case c == '_':
		return 63
	case c >= 'A':
		return uint64(c - 'A')
	case c >= '0':
		return uint64(c-'0') + 52
	}
	return 62
}
