package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// leftover holds the missing rows of a pass that skipped parents: rows that the pass did not contain although
// their parents were requested or are gone. // Invariant 12
type leftover struct {
	alive   int64
	missing int64
	foreign int64 // missing rows that another parent's answer may contain
	keys    []arrow.RecordBatch
	parents map[uint64]bool
	lost    [][]any
}

func (l *leftover) release() {
	if l != nil {
		batch.Release(l.keys)
	}
}

// review finds the missing rows at the end of a pass. It reads the rows that are committed, so it must be called
// before the transaction of the last rows begins.
func (k *destinationRun) review(ctx context.Context, p *pass, g *group) error {
	if g.end == nil || p.parents == nil || k.parentage == nil || p.resumes || k.left != nil {
		return nil
	}
	k.left = &leftover{parents: map[uint64]bool{}}
	if g.end.Skipped > 0 {
		if err := k.leftRows(ctx, p); err != nil {
			return fmt.Errorf("find missing rows of %s: %w", p.stream.Table.Name, err)
		}
	}
	return k.leftParents(ctx, p)
}

// leftParents finds the stored parents that the pass has not seen. It marks them, so that such a parent is requested
// like a new one if it appears again: its rows may be gone.
func (k *destinationRun) leftParents(ctx context.Context, p *pass) error {
	if !slices.ContainsFunc(k.parentage.entries, func(e remembered) bool { return e.is&listed == 0 }) {
		return nil
	}
	now := p.Now()
	return k.parents(ctx, p, func(tuple string, _ int64, _ string) {
		id := tupleID([]byte(tuple))
		if _, asked := slices.BinarySearch(p.parents.requested, id); !asked && !k.parentage.lists(id) {
			k.left.lost = append(k.left.lost, []any{p.Name, p.stream.Name, strings.Clone(tuple), nil, p.id, now}) // the memory of tuple belongs to the scan
		}
	})
}

func (k *destinationRun) leftRows(ctx context.Context, p *pass) error {
	key, context := p.stream.Key, p.parents.context
	columns := slices.Compact(slices.Sorted(slices.Values(slices.Concat(key, context, []string{p.stream.Table.Mode.EndColumn()}))))
	return k.dest.Scan(ctx, p.stream.Table.Name, columns, func(b arrow.RecordBatch) error {
		keys, err := rowhash.Columns(b, key)
		if err != nil {
			return err
		}
		contexts, err := rowhash.Columns(b, context)
		if err != nil {
			return err
		}
		ended, err := rowhash.Columns(b, []string{p.stream.Table.Mode.EndColumn()})
		if err != nil {
			return err
		}
		var rows []int
		for row := range int(b.NumRows()) {
			if !ended[0].IsNull(row) {
				continue
			}
			k.left.alive++
			if k.skipped(p, contexts, row) || p.parents.has(rowhash.KeyText(keys, row)) {
				continue
			}
			rows = append(rows, row)
			k.left.parents[rowID(contexts, row)] = true
			if !p.parents.exclusive(keys, contexts, row) {
				k.left.foreign++
			}
		}
		return k.left.add(p.stream, keys, rows)
	})
}

func (k *destinationRun) skipped(p *pass, context []arrow.Array, row int) bool {
	id := rowID(context, row)
	_, asked := slices.BinarySearch(p.parents.requested, id)
	return !asked && k.parentage.lists(id)
}

// exclusive reports whether no other parent's answer can contain the row's record. Two conditions must hold: each
// parent has one record, whose key is one of the parent's values; and no existing parent has this value.
func (k *parentTracker) exclusive(key, context []arrow.Array, row int) bool {
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

func (k *parentTracker) has(key string) bool {
	_, ok := slices.BinarySearch(k.rowKeys, textID(key))
	return ok
}

func (l *leftover) add(s schemas.Stream, keys []arrow.Array, rows []int) error {
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

// outcome corrects the number of missing rows, because the destination also counts the rows of skipped parents.
func (k *destinationRun) outcome(g *group, out load.Outcome) load.Outcome {
	if g.end == nil || g.end.Skipped == 0 {
		return out
	}
	out.Known = k.left != nil // false if the pass was resumed: the rows of its first part are unknown
	if out.Known {
		out.Alive, out.Missing = k.left.alive+out.Inserted, k.left.missing
		out.Keys = batch.Retained(k.left.keys)
	}
	return out
}

// notePasses counts the pass. If the pass was contradicted or its missing rows are unknown, it is not counted, and
// the next pass requests its parents again.
func (k *destinationRun) notePasses(p *pass, e *ending) {
	switch {
	case p.parents == nil || e.decision.Action == proof.RequestMissing:
	case e.table.Swept && e.verdict != Contradicted:
		k.passes++
		k.doubt = ""
	default:
		k.doubt = p.id
	}
}
