package transform

import (
	"cmp"
	"fmt"

	"github.com/penstock-data/penstock/transform/jsonscan"
)

// SyntaxError is returned for a page that is not a valid JSON array.
type SyntaxError struct {
	Offset int    // offset of the invalid byte in the page
	Record int64  // number of records before that byte
	Reason string // what is wrong
}

// Error returns the reason and the position.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("parse records: %s at byte %d (record %d)", e.Reason, e.Offset, e.Record)
}

// page reads the records of p until the columns are full. The parameter p is an array or the rest of an array. The
// first result is the position at which the reading stopped: the end of p, or the comma before a record.
func (m *Mapper) page(p span) (taken int, err error) {
	b, begin, end := m.raw, p.begin, p.end
	first := m.fetched
	m.clashes.begin(p.first)
	broken := func(i int, reason string) (int, error) {
		if i >= end {
			i, reason = end, "unexpected end"
		}
		return 0, &SyntaxError{Offset: i - begin, Record: m.fetched - first, Reason: reason}
	}
	i := jsonscan.Space(b, begin)
	rest := b[i] == ','
	if b[i] != '[' && !rest {
		return broken(i, "not an array")
	}
	taken = begin
	if i = jsonscan.Space(b, i+1); b[i] != ']' || rest {
		for {
			next, ok := m.record(i, end-begin > maxRecord)
			if m.read.capacity.full {
				return taken, nil
			}
			if !ok {
				return broken(next, "invalid JSON")
			}
			m.fetched++
			if i = jsonscan.Space(b, next); i == end && m.read.rereading {
				return end, nil
			}
			if b[i] != ',' {
				break
			}
			if taken = i; m.read.overflows() {
				return taken, nil
			}
			i = jsonscan.Space(b, i+1)
		}
	}
	if b[i] != ']' {
		return broken(i, "invalid JSON")
	}
	if i = jsonscan.Space(b, i+1); i != end {
		return broken(i, "data after the array")
	}
	return end, nil
}

// record reads the record at the position begin into the next row, or rejects it. If the record must wait for the next
// batch, read.capacity.full is set, and the first result is begin. Otherwise it is the position after the record or, if
// the JSON is invalid, the position of the error. The argument `long` says whether the page is longer than maxRecord.
// In such a page, a record longer than maxRecord is rejected before it fills the buffers.
func (m *Mapper) record(begin int, long bool) (end int, ok bool) {
	r, root, key := &m.read, m.tables.root, &m.tables.key
	row := root.rows
	k := r.mark()
	r.capacity.full = false
	if end = m.checkSize(begin, long); end == 0 {
		end = r.record(m.raw, begin, row)
	}
	if end > 0 && !key.complete(row) {
		end = refuseKey
	}
	if end > 0 && key.tooLong(row) {
		end = refuseLong
	}
	if end > 0 && m.clashing(begin, end, row) {
		end = refuseClash
	}
	if end > 0 {
		m.keep(k, row)
		return end, true
	}
	r.undo(k, root, row)
	if r.capacity.full {
		return begin, true
	}
	code := end
	if end, _, ok = r.walk.Value(m.raw, begin); !ok {
		return end, false
	}
	repaired := repairable(code) && r.repair(m.raw, begin, row)
	if r.capacity.full {
		return begin, true
	}
	if repaired {
		switch {
		case key.tooLong(row):
			code = refuseLong
		case m.clashing(begin, end, row):
			code = refuseClash
		default:
			m.keep(k, row)
			return end, true
		}
		r.undo(k, root, row)
	}
	m.refused++
	m.rejects.record(m.raw, begin, end, code, m.fetched, key)
	return end, true
}

// keep adds the given row to the root table. All rejects since the checkpoint k belong to values of this row. If the
// stream has no key, the ID of these rejects is the hash of the record.
func (m *Mapper) keep(k checkpoint, row int) {
	m.own.append(row, m.fetched, &m.read.hash.sum)
	m.tables.root.rows++
	if k.rejects < len(m.rejects.list) && !m.tables.stale {
		key := m.tables.key.of(row)
		m.rejects.belong(k.rejects, m.fetched, key, cmp.Or(key, "#"+string(m.own.hash.cell(row))))
	}
}

func (m *Mapper) checkSize(begin int, long bool) int {
	if !long {
		return 0
	}
	if end, _, ok := m.read.walk.Value(m.raw, begin); ok && end-begin > maxRecord {
		return refuseSize
	}
	return 0
}
