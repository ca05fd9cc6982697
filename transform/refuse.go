package transform

import (
	"cmp"
	"slices"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform/jsonscan"
)

// rejects returns the rejects of the contract. If a whole record is rejected, it omits the rejects of the record's
// values.
func (w *work) rejects() []Reject {
	if len(w.notes) == 0 {
		return nil
	}
	w.notes = slices.DeleteFunc(w.notes, func(n pendingReject) bool { return n.pointer != "" && w.excluded[n.row] })
	slices.SortStableFunc(w.notes, func(a, b pendingReject) int { return cmp.Compare(a.row, b.row) })
	of := w.root.own(schemas.ColOrdinal).ints
	var ordinals []int64
	for _, n := range w.notes {
		if o := of[n.row]; len(ordinals) == 0 || ordinals[len(ordinals)-1] != o {
			ordinals = append(ordinals, o)
		}
	}
	var out []Reject
	left := w.notes
	w.m.last.records(ordinals, &w.m.walk, func(ordinal int64, begin, end int) {
		for len(left) > 0 && of[left[0].row] == ordinal {
			out = append(out, w.reject(left[0], ordinal, begin, end))
			left = left[1:]
		}
	})
	return out
}

func (w *work) reject(n pendingReject, ordinal int64, begin, end int) Reject {
	m := w.m
	page := m.last.raw
	r := Reject{
		Stream: m.stream.Name, Stage: StageContract, Ordinal: ordinal, Key: m.keyIn(page[begin:end]),
		Pointer: n.pointer, Wanted: n.wanted, Reason: n.reason, Record: n.pointer == "",
	}
	switch {
	case r.Record:
		var note string
		r.Raw, _, note = m.shown(page, begin, end)
		r.Reason += note
	case n.raw != "":
		r.Raw = n.raw
	case n.hidden:
		r.Raw = masked
	default:
		r.Raw = m.shownValue(page[begin:end], n.pointer)
	}
	r.ID = cmp.Or(r.Key, "#"+string(w.root.own(schemas.ColHash).cell(n.row)))
	return r
}

// shownValue returns the value at a pointer in a record, in the form that a reject may show.
func (m *Mapper) shownValue(record []byte, pointer string) string {
	v := memberIn(record, pointer)
	padded := jsonscan.Pad(slices.Clone(v))
	x := redactor{rules: m.rules, reject: true}
	at := m.rules.below
	for _, name := range namesIn(pointer) {
		at = m.rules.member(at, []byte(name))
	}
	if len(v) == 0 {
		return ""
	}
	out, _ := x.value(nil, padded, 0, at, 0)
	if !x.touched {
		out = v
	}
	return printable(out, maxRaw)
}
