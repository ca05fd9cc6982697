package parents

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/files"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Table is what one destination stores about the parents of a stream.
type Table struct {
	Dest     load.Destination
	Files    files.Folder
	Pipeline string
	Stream   schemas.Stream
}

// Past says what is known about earlier passes over the stream.
type Past struct {
	Passes  int64
	Unsure  string // the pass whose parents must be requested again; "" for none
	Trusted bool   // the rows of unchanged parents need not be written again
}

// Stored has the parents that one destination stores for a stream.
type Stored struct {
	entries []remembered
	passes  int64
	trusted bool // the table still has the rows of these parents
}

// remembered is one stored parent. It takes 24 bytes of memory.
type remembered struct {
	id    uint64
	print int64
	is    traits
}

type traits byte

const (
	listed traits = 1 << iota // the source's list contains the parent
	filled                    // the table has rows of the parent
	stale                     // some of the parent's rows must be written again
	barren                    // a parent of this stream may have no rows
)

// Recall reads which parents are stored. A parent is requested again if its rows were deleted or must be written again,
// or if a file of its rows is missing. The last parameter has the tables of the stream.
func (t Table) Recall(ctx context.Context, k *Tracker, past Past, tables []schemas.Table) (*Stored, error) {
	m := &Stored{passes: past.Passes, trusted: past.Trusted}
	if err := t.entries(ctx, m, past.Unsure); err != nil || !m.trusted {
		return m, err
	}
	i := slices.IndexFunc(tables, func(have schemas.Table) bool { return have.Name == t.Stream.Table.Name })
	if m.trusted = i >= 0 && tellsParents(tables[i], k.context); !m.trusted {
		return m, nil
	}
	columns := append(slices.Clone(k.context), schemas.ColHash, t.Stream.Table.Mode.EndColumn())
	if t.Files.Stores(t.Stream) && tables[i].Columns.HasField(files.ColPath) {
		columns = append(columns, files.ColPath)
	}
	err := t.Dest.Scan(ctx, t.Stream.Table.Name, columns, func(b arrow.RecordBatch) error {
		n := len(k.context)
		context, hash, ended := b.Columns()[:n], b.Column(n), b.Column(n+1)
		for row := range int(b.NumRows()) {
			if !ended.IsNull(row) {
				continue
			}
			is := filled
			if len(columns) > n+2 && !t.Files.Has(rowhash.Text(b.Column(n+2), row)) {
				is |= stale
			}
			if rowhash.Text(hash, row) == "" {
				is |= stale
			}
			m.mark(rowID(context, row), is)
		}
		return nil
	})
	return m, err
}

// entries reads the stored parents. The parameter unsure is the id of a pass, or "". The parents that this pass
// requested are left out, because they must be requested again.
func (t Table) entries(ctx context.Context, m *Stored, unsure string) error {
	var is traits
	if !t.Stream.Class.Single() {
		is = barren
	}
	err := t.each(ctx, func(tuple string, print int64, pass string) {
		if pass != unsure {
			m.entries = append(m.entries, remembered{tupleID([]byte(tuple)), print, is})
		}
	})
	slices.SortFunc(m.entries, func(a, b remembered) int { return cmp.Compare(a.id, b.id) })
	return err
}

// StoredColumns returns the columns of [load.Parents] that Recall reads.
func StoredColumns() []string { return []string{"pipeline", "stream", "parent", "print", "run"} }

func (t Table) each(ctx context.Context, visit func(tuple string, print int64, pass string)) error {
	columns := StoredColumns()
	return t.Dest.Scan(ctx, load.Parents.Name, columns, func(b arrow.RecordBatch) error {
		texts := make([]*array.String, len(columns))
		for i, c := range b.Columns() {
			texts[i], _ = c.(*array.String)
		}
		prints, ok := b.Column(3).(*array.Int64)
		if !ok || texts[0] == nil || texts[1] == nil || texts[2] == nil || texts[4] == nil {
			return fmt.Errorf("%s has other column types than penstock gave it", load.Parents.Name)
		}
		for row := range int(b.NumRows()) {
			if texts[1].Value(row) == t.Stream.Name && texts[0].Value(row) == t.Pipeline && !prints.IsNull(row) {
				visit(texts[2].Value(row), prints.Value(row), texts[4].Value(row))
			}
		}
		return nil
	})
}

// Write writes the parents in the transaction that writes their rows, so that no parent is stored without its rows.
// The last parameter is the largest number of parents in a batch. Invariants 1, 2
func (t Table) Write(ctx context.Context, tx load.Tx, pass string, now time.Time, parents []Parent, most int) error {
	for some := range slices.Chunk(parents, max(1, most)) {
		var rows [][]any
		for _, n := range some {
			var print any
			if n.sure {
				print = n.print
			}
			if len(n.tuple) <= schemas.MaxKeyBytes { // a longer tuple fits no index, so its parent is requested in each pass
				rows = append(rows, []any{t.Pipeline, t.Stream.Name, n.tuple, print, pass, now})
			}
		}
		if err := load.WriteRows(ctx, tx, load.Parents, rows...); err != nil {
			return err
		}
	}
	return nil
}

// tellsParents reports whether each row identifies its parent. The columns that identify the parent must store their
// values exactly as the source returned them.
func tellsParents(t schemas.Table, columns []string) bool {
	return !slices.ContainsFunc(columns, func(c string) bool {
		at := t.Columns.FieldIndices(c)
		if len(at) != 1 {
			return true
		}
		id := t.Columns.Field(at[0]).Type.ID()
		return id != arrow.INT64 && id != arrow.STRING
	})
}

// holds reports whether the parent is stored with this fingerprint and all its rows are in the table.
func (m *Stored) holds(id uint64, print int64) bool {
	m.mark(id, listed)
	i, ok := m.find(id)
	if !ok {
		return false
	}
	e := m.entries[i]
	return e.print == print && e.is&stale == 0 && e.is&(filled|barren) != 0
}

func (m *Stored) mark(id uint64, is traits) {
	if i, ok := m.find(id); ok {
		m.entries[i].is |= is
	}
}

func (m *Stored) find(id uint64) (int, bool) {
	return slices.BinarySearchFunc(m.entries, id, func(e remembered, id uint64) int { return cmp.Compare(e.id, id) })
}

func (m *Stored) lists(id uint64) bool {
	i, ok := m.find(id)
	return ok && m.entries[i].is&listed != 0
}
