package parents

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Left describes the missing rows of a pass that skipped parents. A row of the table is missing if the pass did not
// read the row although the row's parent was requested or is gone. // Invariant 12
type Left struct {
	Foreign int64           // missing rows whose records may be in the answer for another parent
	Parents map[uint64]bool // the parents of the missing rows

	alive   int64
	missing int64
	keys    []arrow.RecordBatch
	lost    [][]any
}

// Release releases the keys of the rows.
func (l *Left) Release() {
	if l != nil {
		batch.Release(l.keys)
	}
}

// Missing reports whether rows are missing.
func (l *Left) Missing() bool { return l != nil && l.missing > 0 }

// Review finds the missing rows at the end of a pass. It reads the rows that are committed, so it must be called before
// the transaction of the last rows begins. If the pass has skipped no parents, Review does not search for missing
// rows.
func (t Table) Review(ctx context.Context, k *Tracker, m *Stored, skipped bool, pass string, now time.Time) (*Left, error) {
	l := &Left{Parents: map[uint64]bool{}}
	if skipped {
		if err := t.leftRows(ctx, k, m, l); err != nil {
			return l, fmt.Errorf("find missing rows of %s: %w", t.Stream.Table.Name, err)
		}
	}
	return l, t.leftParents(ctx, k, m, l, pass, now)
}

// leftParents finds the stored parents that the pass has not seen. [Left.Write] marks them. If a marked parent appears
// again, it is requested like a new parent, because its rows may be gone.
func (t Table) leftParents(ctx context.Context, k *Tracker, m *Stored, l *Left, pass string, now time.Time) error {
	if !slices.ContainsFunc(m.entries, func(e remembered) bool { return e.is&listed == 0 }) {
		return nil
	}
	return t.each(ctx, func(tuple string, _ int64, _ string) {
		id := tupleID([]byte(tuple))
		if _, asked := slices.BinarySearch(k.requested, id); !asked && !m.lists(id) {
			l.lost = append(l.lost, []any{t.Pipeline, t.Stream.Name, strings.Clone(tuple), nil, pass, now}) // the scan reuses the memory of tuple
		}
	})
}

// Write marks the stored parents that the pass has not seen.
func (l *Left) Write(ctx context.Context, tx load.Tx) error {
	if l == nil {
		return nil
	}
	return load.WriteRows(ctx, tx, load.Parents, l.lost...)
}

// Correct corrects the number of missing rows, because the destination also counts the rows of skipped parents. If l is
// nil, the pass was resumed. Then the rows of its first part are unknown, and so is the number of missing rows.
func (l *Left) Correct(out load.Outcome) load.Outcome {
	if out.Known = l != nil; l != nil {
		out.Alive, out.Missing = l.alive+out.Inserted, l.missing
		out.Keys = batch.Retained(l.keys)
	}
	return out
}

func (t Table) leftRows(ctx context.Context, k *Tracker, m *Stored, l *Left) error {
	key, context := t.Stream.Key, k.context
	columns := slices.Compact(slices.Sorted(slices.Values(slices.Concat(key, context, []string{t.Stream.Table.Mode.EndColumn()}))))
	return t.Dest.Scan(ctx, t.Stream.Table.Name, columns, func(b arrow.RecordBatch) error {
		keys, err := rowhash.Columns(b, key)
		if err != nil {
			return err
		}
		contexts, err := rowhash.Columns(b, context)
		if err != nil {
			return err
		}
		ended, err := rowhash.Columns(b, []string{t.Stream.Table.Mode.EndColumn()})
		if err != nil {
			return err
		}
		var rows []int
		for row := range int(b.NumRows()) {
			if !ended[0].IsNull(row) {
				continue
			}
			l.alive++
			if k.skipped(m, contexts, row) || k.has(rowhash.KeyText(keys, row)) {
				continue
			}
			rows = append(rows, row)
			l.Parents[rowID(contexts, row)] = true
			if !k.exclusive(keys, contexts, row) {
				l.Foreign++
			}
		}
		return l.add(t.Stream, keys, rows)
	})
}

func (k *Tracker) skipped(m *Stored, context []arrow.Array, row int) bool {
	id := rowID(context, row)
	_, asked := slices.BinarySearch(k.requested, id)
	return !asked && m.lists(id)
}

// exclusive reports whether the row's record can be only in the answer for the row's own parent. Two conditions must
// hold: each parent has one record, and the record's key is one of the values that identify the parent. If several
// values identify a parent, a third condition must hold: no parent in the source's list has the key among its values.
func (k *Tracker) exclusive(key, context []arrow.Array, row int) bool {
	if !k.single || len(key) != 1 {
		return false
	}
	text := rowhash.Text(key[0], row)
	if !slices.ContainsFunc(context, func(a arrow.Array) bool { return rowhash.Text(a, row) == text }) {
		return false
	}
	if len(context) == 1 {
		return true
	}
	_, there := slices.BinarySearch(k.values, textID(text))
	return !there
}

func (k *Tracker) has(key string) bool {
	_, ok := slices.BinarySearch(k.rowKeys, textID(key))
	return ok
}

func (l *Left) add(s schemas.Stream, keys []arrow.Array, rows []int) error {
	if len(rows) == 0 || s.Table.Mode == schemas.Append {
		return nil
	}
	l.missing += int64(len(rows))
	fields, columns := make([]arrow.Field, len(keys)), make([]arrow.Array, len(keys))
	for i, a := range keys {
		picked := make([]arrow.Array, len(rows))
		for j, row := range rows {
			picked[j] = array.NewSlice(a, int64(row), int64(row)+1)
			defer picked[j].Release()
		}
		all, err := array.Concatenate(picked, memory.DefaultAllocator)
		if err != nil {
			return fmt.Errorf("keep keys: %w", err)
		}
		defer all.Release()
		fields[i], columns[i] = arrow.Field{Name: s.Key[i], Type: a.DataType()}, all
	}
	l.keys = append(l.keys, array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(len(rows))))
	return nil
}
