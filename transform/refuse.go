package transform

import (
	"cmp"
	"slices"

	"github.com/penstock-data/penstock/schemas"
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
	w.m.last.records(ordinals, func(ordinal int64, begin, end int) {
		for len(left) > 0 && of[left[0].row] == ordinal {
			out = append(out, w.reject(left[0], ordinal, begin, end))
			left = left[1:]
		}
	})
	return out
}

func (w *work) reject(n pendingReject, ordinal int64, begin, end int) Reject {
	rules, page := w.m.tables.rules, w.m.last.raw
	r := Reject{
		Stream: w.m.tables.stream.Name, Stage: StageContract, Ordinal: ordinal, Key: w.m.tables.key.in(page[begin:end]),
		Pointer: n.pointer, Wanted: n.wanted, Reason: n.reason, Record: n.pointer == "",
	}
	switch {
	case r.Record:
		var note string
		r.Raw, _, note = rules.shown(page, begin, end)
		r.Reason += note
	case n.raw != "":
		r.Raw = n.raw
	case n.hidden:
		r.Raw = masked
	default:
		r.Raw = rules.shownValue(page[begin:end], n.pointer)
	}
	r.ID = cmp.Or(r.Key, "#"+string(w.root.own(schemas.ColHash).cell(n.row)))
	return r
}
