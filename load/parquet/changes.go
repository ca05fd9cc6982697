package parquet

import (
	"context"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/values"
	"github.com/penstock-data/penstock/schemas"
)

const (
	actionInsert = "insert"
	actionUpdate = "update"
	actionDelete = "delete"
	actionRevive = "revive"
)

const logRows = 16 << 10

type rowAt struct {
	columns []arrow.Array
	row     int
}

// logInserts logs the rows that are inserted. It leaves out rows that replace an earlier row, and new versions of a
// row.
func (m *merge) logInserts(f *family, plots []*segmentPlan) error {
	if !m.spec.Log || load.IsInternal(f.t.Name) {
		return nil
	}
	for _, p := range plots {
		for _, i := range p.rows {
			r := &f.supplied.rows[i]
			if r.seg != nil {
				continue // logEdits logs the row together with the row that it replaces
			}
			after := &rowAt{f.staged.columns[r.ref.batch], int(r.ref.row)}
			if err := m.logRow(f.t, actionInsert, nil, after, f.syncedAt(r)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *family) syncedAt(r *suppliedRow) int64 {
	return instantAt(f.staged.columns[r.ref.batch][f.t.column(schemas.ColSyncedAt)], int(r.ref.row))
}

// logEdits logs the rows that the given edits will change. It must be called before the edits are applied.
func (m *merge) logEdits(f *family, first int64, columns []arrow.Array, edits []edit) error {
	if !m.spec.Log || load.IsInternal(f.t.Name) {
		return nil
	}
	for _, e := range edits {
		before := &rowAt{columns, int(int64(e.row) - first)}
		action, at := actionDelete, e.at
		var after *rowAt
		if e.by >= 0 {
			r := &f.supplied.rows[e.by]
			after = &rowAt{f.staged.columns[r.ref.batch], int(r.ref.row)}
			action, at = actionUpdate, f.syncedAt(r)
			if r.have&deadMark != 0 {
				action = actionRevive
			}
		}
		if err := m.logRow(f.t, action, before, after, at); err != nil {
			return err
		}
	}
	return nil
}

func (x *builder) logRow(t *table, action string, before, after *rowAt, at int64) error {
	if x.log == nil {
		return nil
	}
	l := x.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b == nil {
		l.b = array.NewRecordBuilder(memory.DefaultAllocator, load.RowChanges.Columns)
	}
	some := after
	if some == nil {
		some = before
	}
	for i, v := range []string{x.spec.Run, x.key.Pipeline, x.key.Stream, t.Name} {
		l.b.Field(i).(*array.StringBuilder).Append(v)
	}
	l.b.Field(4).(*array.TimestampBuilder).Append(arrow.Timestamp(at))
	l.b.Field(5).(*array.StringBuilder).Append(action)
	l.buf = t.appendKey(l.buf[:0], some)
	l.b.Field(6).(*array.StringBuilder).BinaryBuilder.Append(l.buf)
	for i, r := range []*rowAt{before, after} {
		b := l.b.Field(7 + i).(*array.StringBuilder)
		if r == nil {
			b.AppendNull()
			continue
		}
		l.buf = t.appendDocument(l.buf[:0], r)
		b.BinaryBuilder.Append(l.buf)
	}
	if l.b.Field(0).Len() < logRows {
		return nil
	}
	return x.flushLog(context.Background())
}

// flushLog adds the collected rows to the log table as one batch. After every fourth full batch, it writes
// the batches to a file. The caller holds the log's mutex, or is the only user of the log.
func (x *builder) flushLog(ctx context.Context) error {
	if x.log == nil || x.log.b == nil || x.log.b.Field(0).Len() == 0 {
		return nil
	}
	b := x.log.b.NewRecordBatch()
	defer b.Release()
	if err := x.append(load.RowChanges.Name, b); err != nil {
		return err
	}
	if x.internal[load.RowChanges.Name].Rows < 4*logRows {
		return nil
	}
	return x.flushInternal(ctx, load.RowChanges.Name)
}

func (t *table) appendKey(dst []byte, r *rowAt) []byte {
	if len(t.Key) == 0 {
		return values.AppendText(dst, r.columns[t.column(schemas.ColHash)], r.row)
	}
	dst = append(dst, '[')
	for i, k := range t.Key {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = values.AppendJSON(dst, r.columns[t.column(k)], t.typeOf(k), r.row)
	}
	return append(dst, ']')
}

func (t *table) appendDocument(dst []byte, r *rowAt) []byte {
	dst = append(dst, '{')
	start := len(dst)
	for i, f := range t.schema.Fields() {
		if strings.HasPrefix(f.Name, load.Prefix) {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(load.AppendQuoted(dst, f.Name), ':')
		dst = values.AppendValid(dst, r.columns[i], schemas.TypeOf(f), r.row)
	}
	return append(dst, '}')
}
