package transform

import (
	"cmp"
	"fmt"

	"github.com/penstock-data/penstock/schemas"
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

// page reads the records of p until the columns are full. p is an array or the rest of an array. taken is the
// position at which page stopped: the end of p, or the comma before a record.
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
			if m.full {
				return taken, nil
			}
			if !ok {
				return broken(next, "invalid JSON")
			}
			m.fetched++
			if i = jsonscan.Space(b, next); i == end && m.rereading {
				return end, nil
			}
			if b[i] != ',' {
				break
			}
			if taken = i; m.overflows() {
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

// record reads the record at begin into the next row, or rejects it. If the record must wait for the next batch,
// m.full is set and end is begin. If the JSON is invalid, end is the position of the error. long is true if the page
// is longer than maxRecord. A record longer than maxRecord is then rejected before it fills the buffers.
func (m *Mapper) record(begin int, long bool) (end int, ok bool) {
	row := m.root.rows
	k := m.mark()
	m.full = false
	if end = m.checkSize(begin, long); end == 0 {
		end = m.readRecord(begin, row)
	}
	if end > 0 && !m.hasKey(row) {
		end = refuseKey
	}
	if end > 0 && m.longKey(row) {
		end = refuseLong
	}
	if end > 0 && m.clashing(begin, end, row) {
		end = refuseClash
	}
	if end > 0 {
		m.keep(k, row)
		return end, true
	}
	m.undo(k, m.root, row)
	if m.full {
		return begin, true
	}
	code := end
	if end, _, ok = m.walk.Value(m.raw, begin); !ok {
		return end, false
	}
	repaired := repairable(code) && m.repair(begin, end, row)
	if m.full {
		return begin, true
	}
	if repaired {
		switch {
		case m.longKey(row):
			code = refuseLong
		case m.clashing(begin, end, row):
			code = refuseClash
		default:
			m.keep(k, row)
			return end, true
		}
		m.undo(k, m.root, row)
	}
	m.rejectRecord(begin, end, code)
	return end, true
}

// keep adds row to the root table. All rejects since k belong to values of this row.
func (m *Mapper) keep(k checkpoint, row int) {
	m.own.append(row, m.fetched, &m.sum)
	m.root.rows++
	m.keyRejects(k, row)
}

func (m *Mapper) checkSize(begin int, long bool) int {
	if !long {
		return 0
	}
	if end, _, ok := m.walk.Value(m.raw, begin); ok && end-begin > maxRecord {
		return refuseSize
	}
	return 0
}

func (m *Mapper) fill(i, row int) (end int) {
	m.sum, m.contextHash, m.cuts, m.patched = sum{}, 0, m.cuts[:0], m.patched[:0]
	m.bound.exceeded = false
	switch m.raw[i] {
	case '{':
		if end = m.members(m.root.object, i+1, row); end > 0 && m.bound.exceeded {
			return refuseBound
		}
		return end
	case 'n':
		if end = jsonscan.Null(m.raw, i); end < 0 {
			return end
		}
		return refuseNull
	}
	return m.scalar(i, row)
}

func (m *Mapper) scalar(i, row int) (end int) {
	if m.scalars == nil {
		m.scalars = &field{owner: m.root.object, rule: m.rules.at(""), column: m.columnAt(m.root, "")}
	}
	if end = m.specialValue(m.scalars, i, i, row); end > 0 {
		m.hashPieces(i, end)
	}
	return end
}

func (m *Mapper) hasKey(row int) bool {
	for _, c := range m.key {
		if c == nil || !c.has(row) {
			return false
		}
	}
	return true
}

func (m *Mapper) longKey(row int) bool {
	n := 0
	for _, c := range m.key {
		if c.kind >= kindText {
			n += len(c.cell(row))
		}
	}
	const escaped = 6 // one byte takes up to six bytes in JSON
	return n*escaped > schemas.MaxKeyBytes && len(m.keyOf(row)) > schemas.MaxKeyBytes
}

// keyRejects sets Key and ID of the rejects since k. If the stream has no key, ID is the hash of the record.
func (m *Mapper) keyRejects(k checkpoint, row int) {
	if k.rejects == len(m.rejects) || m.stale {
		return
	}
	key := m.keyOf(row)
	id := cmp.Or(key, "#"+string(m.own.hash.cell(row)))
	for i := range m.rejects[k.rejects:] {
		r := &m.rejects[k.rejects+i]
		r.Key, r.ID = key, id
	}
}
