package transform

import "github.com/penstock-data/penstock/transform/jsonscan"

// reader reads the JSON text of one record at a time into the columns of the tables.
type reader struct {
	tables  *tableSet
	rejects *rejects

	b    []byte // the text being read, followed by padding: the pages of the batch, or one record
	scan jsonscan.Scanner
	walk jsonscan.Walker
	hash recordHash

	capacity  capacity
	rereading bool

	scalars    *field // field for records that are not objects
	lastOpaque *field // field whose value was last stored as JSON text
	redactor   redactor
	patched    []byte // redacted JSON text of the current record
}

// fill reads the record at b[i] into a row of the root table. It returns refuseBound if a value is beyond a limit.
func (r *reader) fill(b []byte, i, row int) (end int) {
	r.b, r.patched = b, r.patched[:0]
	r.hash.begin()
	r.tables.bound.exceeded = false
	switch b[i] {
	case '{':
		if end = r.members(r.tables.root.object, i+1, row); end > 0 && r.tables.bound.exceeded {
			return refuseBound
		}
		return end
	case 'n':
		if end = jsonscan.Null(b, i); end < 0 {
			return end
		}
		return refuseNull
	}
	return r.scalar(i, row)
}

func (r *reader) scalar(i, row int) (end int) {
	if r.scalars == nil {
		r.scalars = &field{owner: r.tables.root.object, rule: r.tables.rules.at(""), column: r.tables.columnAt(r.tables.root, "")}
	}
	if end = r.specialValue(r.scalars, i, i, row); end > 0 {
		r.hash.pieces(r.b, i, end)
	}
	return end
}

// checkpoint is a state of the reader. The method undo() goes back to it.
type checkpoint struct {
	changes, rejects, cuts, admitted int
	stale                            bool
}

func (r *reader) mark() checkpoint {
	t := r.tables
	return checkpoint{len(t.changes), len(r.rejects.list), len(r.hash.cuts), len(t.bound.admitted), t.stale}
}

// undo restores the types and rejects of the checkpoint k. It removes the given row of t and all later rows.
func (r *reader) undo(k checkpoint, t *table, row int) {
	r.tables.undo(k)
	r.rejects.list = r.rejects.list[:k.rejects]
	r.hash.cuts = r.hash.cuts[:k.cuts]
	t.truncate(row)
}

// overflows reports whether the columns are too large. It measures them every capacity.rows rows. If the batch already
// has other records, it also sets capacity.full, and the current record waits for the next batch. While the pages of
// a batch are read again, overflows returns false if the batch has other records.
func (r *reader) overflows() bool {
	c := &r.capacity
	if c.unmeasured++; c.unmeasured < c.rows {
		return false
	}
	c.unmeasured = 0
	if r.tables.root.rows == 0 {
		return r.tables.bytes() > c.record
	}
	c.full = !r.rereading && r.tables.bytes() > c.batch
	return c.full
}

// specialValue reads the value of a special field: a volatile field, or one with a rule. Such a field is not hashed as
// received. The member is at the position begin, and its value is at i.
func (r *reader) specialValue(f *field, begin, i, row int) (end int) {
	if f.void {
		end, _ = jsonscan.Empty(r.b, i, maxDepth)
		return end
	}
	if f.rule == nil {
		end = r.value(f, i, row)
	} else {
		end = r.valueWithRule(f, begin, i, row)
	}
	if f.volatile && end > 0 {
		r.hash.cuts = r.hash.cuts[:0]
		r.hash.cut(begin, end, nil)
	}
	return end
}

// valueWithRule reads the value at i of a field with a rule. Two kinds of values must not affect the hash of the
// record: values that are not loaded, and the original values of masked fields. So they are left out of the hash. The
// [Shaper] adds the masked values to the hash.
func (r *reader) valueWithRule(f *field, begin, i, row int) (end int) {
	k := f.rule
	switch {
	case k.leavesOut(r.b, i):
		end, _, ok := r.walk.Value(r.b, i)
		if !ok {
			return refuseSyntax
		}
		r.hash.cut(begin, end, nil)
		return end
	case !k.hides():
		return r.value(f, i, row)
	}
	r.lastOpaque = nil
	if end = r.value(f, i, row); end < 0 {
		return end
	}
	if (r.lastOpaque == f || !jsonscan.BeginsObject(r.b, i)) && (k.Drop || !jsonscan.NoValue(r.b, i)) {
		r.hash.cut(begin, end, nil)
	}
	return end
}

// fieldBeyondLimit returns a field for a member beyond the limit whose value at i is empty. All such members share one
// field. fieldBeyondLimit returns nil if the value is not empty.
func (r *reader) fieldBeyondLimit(o *object, i int) *field {
	if _, void := jsonscan.Empty(r.b, i, maxDepth); !void {
		return nil
	}
	f := &r.tables.bound.nothing
	*f = field{owner: o, next: o.first.next, special: true, void: true}
	f.expect("")
	return f
}

// opaqueRuled returns the JSON text to store for b[i:end], a value of f. It applies the rules for fields inside the
// value. If a rule masks f itself, the [Shaper] applies it.
func (r *reader) opaqueRuled(f *field, i, end int) []byte {
	value := r.b[i:end]
	r.lastOpaque = f
	if f.rule.hides() {
		return value
	}
	if f.inside == nil {
		f.inside = r.tables.rules.place(f.pointerOf())
	}
	x := &r.redactor
	x.rules, x.touched = r.tables.rules, false
	from := len(r.patched)
	out, _ := x.value(r.patched, r.b, i, f.inside, 0)
	if !x.touched {
		r.patched = out[:from]
		return value
	}
	r.patched = out
	r.hash.cut(i, end, out[from:])
	return out[from:]
}
