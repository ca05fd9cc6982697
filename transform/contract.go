package transform

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/schemas"
)

type pendingReject struct {
	row     int
	pointer string // "" means the whole record
	wanted  string
	reason  string
	hidden  bool   // the value must not be visible in the reject
	raw     string // the rejected value, if the pointer does not lead to a value in the record; otherwise ""
}

// checkContract compares the batch with the contract. It leaves out records and values that the contract does not
// allow. Where the contract's policy is freeze, it returns an error instead.
func (w *work) checkContract() error {
	var diff []string
	for _, t := range w.tables {
		if t.fresh {
			diff = append(diff, w.checkNewTable(t)...)
			continue
		}
		for _, st := range t.steps {
			if st.fresh {
				diff = append(diff, w.checkNewColumn(t, st)...)
			}
			if st.known != nil {
				diff = append(diff, w.checkType(t, st)...)
			}
		}
	}
	if diff != nil {
		return &ContractError{Stream: w.m.tables.stream.Name, Diff: diff}
	}
	return nil
}

// checkNewTable leaves out all rows of t, or all records if t is the root table. If the contract's policy is freeze, it
// leaves nothing out, and the result describes the new table.
func (w *work) checkNewTable(t *openBatch) (diff []string) {
	rows := w.remainingRows(t, nil)
	if len(rows) == 0 {
		return nil
	}
	policy := w.m.tables.stream.Rules.Contract.Tables
	reason := "the contract does not allow the new table " + t.table.Name
	if policy == schemas.Freeze {
		return []string{"table " + t.table.Name + " is new"}
	}
	t.excluded = make([]bool, t.rows)
	for _, row := range rows {
		if t == w.root {
			w.refuse(row, "", reason)
			continue
		}
		t.excluded[row] = true
		if w.parentExcluded(t) {
			continue // the reject for the parent table includes this row
		}
		w.add(t, row, xxh3.HashString("without "+t.table.Name)^w.position(t, row))
		pointer := w.pointer(t, row)
		if policy == schemas.DiscardValue {
			if t.place.ints[row] > 0 {
				continue // the reject for the first element includes the whole array
			}
			pointer = pointer[:len(pointer)-len("/0")]
		}
		w.notes = append(w.notes, pendingReject{row: t.recordOf(row), pointer: pointer, wanted: "nothing", reason: reason})
	}
	return nil
}

func (w *work) parentExcluded(t *openBatch) bool {
	return slices.ContainsFunc(w.tables, func(o *openBatch) bool { return o.fresh && o.node == t.node.parent })
}

func (w *work) checkNewColumn(t *openBatch, st step) (diff []string) {
	typ := schemas.TypeName(schemas.TypeOf(st.field))
	reason := fmt.Sprintf("the contract does not allow the new column %s of %s", st.field.Name, t.table.Name)
	rows := w.remainingRows(t, w.view(t, st.column))
	policy := w.m.tables.stream.Rules.Contract.Columns
	if len(rows) > 0 && policy == schemas.Freeze {
		return []string{fmt.Sprintf("column %s of %s is new: %s", st.field.Name, t.table.Name, typ)}
	}
	w.keepOut(t, st, rows, policy, pendingReject{wanted: "nothing", reason: reason, hidden: st.rule.hides()})
	t.arrays[st.column] = nil
	return nil
}

// checkType stores values in the destination's type if they fit. It leaves out the other values. If a value that does
// not fit belongs to the key, checkType leaves out the whole record.
func (w *work) checkType(t *openBatch, st step) (diff []string) {
	policy := w.m.tables.stream.Rules.Contract.Types
	narrowed := w.narrow(t, st)
	wide, want := schemas.TypeName(schemas.TypeOf(st.field)), schemas.TypeName(st.known)
	rows := slices.DeleteFunc(w.remainingRows(t, nil), func(row int) bool { return !narrowed.misfit[row] })
	if len(rows) > 0 && policy == schemas.Freeze {
		narrowed.array.Release()
		return []string{fmt.Sprintf("column %s of %s would become %s instead of %s", st.field.Name, t.table.Name, wide, want)}
	}
	if slices.Contains(t.keys, st.column) && t == w.root {
		policy, w.keysChanged = schemas.DiscardRow, true
	}
	reason := fmt.Sprintf("the contract keeps the column %s of %s as %s", st.field.Name, t.table.Name, want)
	w.keepOut(t, st, rows, policy, pendingReject{wanted: want, reason: reason, hidden: st.rule.hides()})
	for _, row := range narrowed.minusZeros {
		w.notes = append(w.notes, pendingReject{row: t.recordOf(int(row)), pointer: w.pointer(t, int(row)) + schemas.Source(st.field), wanted: want, reason: minusZero})
	}
	t.types[st.column] = st.known
	t.put(st.column, narrowed.array)
	return nil
}

func (w *work) keepOut(t *openBatch, st step, rows []int, policy schemas.Policy, n pendingReject) {
	h := xxh3.HashString("without " + st.path)
	for _, row := range rows {
		if policy == schemas.DiscardRow {
			w.refuse(t.recordOf(row), n.wanted, n.reason)
			continue
		}
		// Change the hash of the row, because the value is missing. If the contract later allows the value, the hash
		// changes again, and the row is written with the value.
		w.add(t, row, h^w.position(t, row))
		n.row, n.pointer = t.recordOf(row), w.pointer(t, row)+schemas.Source(st.field)
		if st.field.Name == schemas.ColRest {
			n.pointer, n.raw = "/"+schemas.ColRest, printable(w.view(t, st.column).cell(row), maxRaw)
		}
		w.notes = append(w.notes, n)
	}
}

func (w *work) refuse(row int, wanted, reason string) {
	if w.excluded[row] {
		return
	}
	if wanted == "" || wanted == "nothing" {
		wanted = "record"
	}
	w.excluded[row] = true
	w.refused++
	w.notes = append(w.notes, pendingReject{row: row, wanted: wanted, reason: reason})
}

func (w *work) remainingRows(t *openBatch, src *vector) (rows []int) {
	for row := range t.rows {
		if !w.excluded[t.recordOf(row)] && (src == nil || !src.isEmpty(row)) {
			rows = append(rows, row)
		}
	}
	return rows
}

func (w *work) pointer(t *openBatch, row int) string {
	if t.node.parent == nil {
		return ""
	}
	path := string(t.parents(row)) + "/" + strconv.FormatInt(t.place.ints[row], 10)
	return spread(t.node, path)
}

// spread returns the JSON pointer of a child row. The parameter `path` has only the row's positions in the arrays. For
// example, the path /0/2 becomes /items/0/prices/2.
func spread(t *table, path string) string {
	if t.parent == nil {
		return ""
	}
	at := lastSlash(path)
	return spread(t.parent, path[:at]) + t.within + path[at:]
}

func lastSlash(s string) int {
	for i := len(s) - 1; i > 0; i-- {
		if s[i] == '/' {
			return i
		}
	}
	return 0
}
