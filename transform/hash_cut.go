package transform

import (
	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/transform/jsonscan"
)

type cut struct {
	begin, end int
	with       []byte
}

func (m *Mapper) hashCut(begin, end int, with []byte) {
	m.cuts = append(m.cuts, cut{begin, end, with})
}

// specialValue reads the value of a special field: a volatile field, or one with a rule. Such a field is not hashed
// as received. The member begins at begin, and its value at i.
func (m *Mapper) specialValue(f *field, begin, i, row int) (end int) {
	if f.void {
		end, _ = jsonscan.Empty(m.raw, i, maxDepth)
		return end
	}
	if f.rule == nil {
		end = m.value(f, i, row)
	} else {
		end = m.valueWithRule(f, begin, i, row)
	}
	if f.volatile && end > 0 {
		m.cuts = m.cuts[:0]
		m.hashCut(begin, end, nil)
	}
	return end
}

func (m *Mapper) hashPieces(begin, end int) {
	left := m.cutBuffer[:0]
	for _, c := range m.cuts {
		left = append(append(left, m.raw[begin:c.begin]...), c.with...)
		begin = c.end
	}
	left = append(left, m.raw[begin:end]...)
	if len(left) > 0 {
		m.sum.add(xxh3.Hash(left))
	}
	m.cutBuffer = left
	m.cuts = m.cuts[:0]
}
