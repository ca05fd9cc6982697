package rejects

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

type refitted struct {
	batches []transform.TableBatch
	rejects []transform.Reject
	why     map[int64]string
	order   []*reject.Row
}

func (m *refitted) release() {
	batch.ReleaseTables(m.batches)
}

// resubmit maps the rejected records again. It returns the records that fit the current rules and tables, except those
// whose rows a later pass has written.
func (t *rejectRetry) resubmit(ctx context.Context, open []*reject.Row) (*refitted, error) {
	known, err := t.dest.Tables(ctx, t.stream.Table.Name)
	if err != nil {
		return nil, err
	}
	all, err := t.fit(known, open)
	if err != nil {
		return nil, err
	}
	defer all.release()
	later, err := t.later(ctx, known, all)
	if err != nil {
		return nil, err
	}
	var fit []*reject.Row
	for i, j := range all.order {
		switch why, refused := all.why[int64(i)]; {
		case refused:
			t.reject(j, why)
		case later[j] != "" && later[j] > j.PassID():
			t.resolve(j) // a later pass has written the row // Invariant 8
		case later[j] != "" && j.Passed:
			t.reject(j, "a later pass may have found the row unchanged; run sync --full") // Invariant 8
		case later[j] != "":
			t.reject(j, "the pass that rejected this record has written another record with the same key; run sync")
		default:
			t.resolve(j)
			fit = append(fit, j)
		}
	}
	return t.fit(known, fit)
}

// fit() maps records. It rejects a record at once if the stored text is not the whole original record, for example
// because the text was cut.
func (t *rejectRetry) fit(known []schemas.Table, records []*reject.Row) (*refitted, error) {
	m := transform.NewMapper(t.stream, transform.Stamp{Run: t.Config.Run, SyncedAt: t.Config.Now().UTC(), Via: "poll"}, known)
	defer m.Close()
	shaper, err := transform.NewShaper(m, t.Settled[t.dest.Name])
	if err != nil {
		return nil, err
	}
	out := &refitted{why: map[int64]string{}}
	var refused error
	shape := func() {
		batches, rejects := m.Flush()
		batches, kept, err := shaper.Shape(batches)
		refused = cmp.Or(refused, err)
		out.batches, out.rejects = append(out.batches, batches...), append(append(out.rejects, rejects...), kept...)
	}
	for _, j := range records {
		whole := transform.HasWholeRecord(j.Reason)
		if whole {
			for full, err := range m.AppendParts(slices.All([][]byte{[]byte("[" + j.Raw + "]")})) {
				if whole = err == nil; full {
					shape()
				}
			}
			whole = whole && m.Fetched() == int64(len(out.order)+1)
		}
		if !whole {
			t.reject(j, "it was not stored in its original form; run sync to read it again")
			continue
		}
		out.order = append(out.order, j)
	}
	if shape(); refused != nil {
		batch.ReleaseTables(out.batches)
		out.batches, out.rejects = nil, nil
	}
	if frozen, ok := errors.AsType[*transform.ContractError](refused); ok {
		for i := range out.order {
			out.why[int64(i)] = frozen.Error()
		}
	} else if refused != nil {
		return nil, refused
	}
	for _, r := range out.rejects {
		if r.Record {
			out.why[r.Ordinal] = r.Reason
		}
	}
	return out, nil
}

// later() finds the rows of the table that have the same key as a record in m. The result contains, for such a record,
// the id of the pass that wrote the row. A row that was written before the record was rejected usually does not count,
// because the record is newer. But the row counts if another pass has read the stream since then: that pass may have
// found the row unchanged, and an unchanged row is not written again.
func (t *rejectRetry) later(ctx context.Context, known []schemas.Table, m *refitted) (map[*reject.Row]string, error) {
	found := map[*reject.Row]string{}
	asked := map[string][]*reject.Row{}
	var key []string
	for _, b := range m.batches {
		if b.Table.Name != t.stream.Table.Name || len(b.Table.Key) == 0 {
			continue
		}
		key = b.Table.Key
		cells, err := rowhash.Columns(b.Batch, append(slices.Clone(key), schemas.ColOrdinal))
		if err != nil {
			return nil, err
		}
		for i := range int(b.Batch.NumRows()) {
			k := rowhash.KeyText(cells[:len(key)], i)
			asked[k] = append(asked[k], m.order[reject.Int64At(cells[len(key)], i)])
		}
	}
	there := slices.ContainsFunc(known, func(k schemas.Table) bool { return k.Name == t.stream.Table.Name })
	if len(asked) == 0 || !there {
		return found, nil
	}
	err := t.dest.Scan(ctx, t.stream.Table.Name, append(slices.Clone(key), schemas.ColRun), func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			run := rowhash.Text(b.Column(len(key)), i)
			for _, j := range asked[rowhash.KeyText(b.Columns()[:len(key)], i)] {
				if j.Passed || cmp.Compare(run, j.PassID()) >= 0 {
					found[j] = max(found[j], run)
				}
			}
		}
		return nil
	})
	return found, err
}
