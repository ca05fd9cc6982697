package parquet

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
)

var _ load.TableChecker = (*Lake)(nil)

// CheckTable implements [load.TableChecker]. It returns an error if the lake's tables cannot be partitioned by the
// configured column, because of the column's type.
func (l *Lake) CheckTable(t schemas.Table) error {
	if _, err := l.partitioned(t); err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	return nil
}

// PartitionColumn implements [load.TableChecker].
func (l *Lake) PartitionColumn() string { return l.o.PartitionBy.Column }

func (l *Lake) partitioned(t schemas.Table) (by partition.Spec, err error) {
	f, ok := t.Columns.FieldsByName(l.o.PartitionBy.Column)
	if !ok || t.Columns.HasField(schemas.ColParent) || load.IsInternal(t.Name) {
		return by, nil
	}
	if err := l.o.PartitionBy.Check(schemas.TypeOf(f[0])); err != nil {
		return by, err
	}
	return l.o.PartitionBy, nil
}

// parts returns the partition of each row.
func (t *table) parts(columns []arrow.Array) []string {
	return t.Partition.Parts(columns[t.column(t.Partition.Column)])
}

// keepsParts reports whether all rows of the table `old` stay in their partitions when its columns get the types that
// they have in t.
func (t *table) keepsParts(old *table) bool {
	name := t.Partition.Column
	return t.partitions() && t.has(name) && old.has(name) && t.Partition.Keeps(old.typeOf(name), t.typeOf(name))
}

func (t *table) partitions() bool { return t.Partition != partition.Spec{} }

func (m *merge) moveParts(f *family) {
	if !f.t.partitions() {
		return
	}
	parts := make([][]string, len(f.staged.columns))
	for i := range f.supplied.rows {
		r := &f.supplied.rows[i]
		if r.outcome != replacing {
			continue
		}
		if b := r.ref.batch; parts[b] == nil {
			parts[b] = f.t.parts(f.staged.columns[b])
		}
		if parts[r.ref.batch][r.ref.row] != r.seg.Part {
			r.outcome = inserted
			f.edit(r.seg, edit{row: r.row, kind: remove, by: int32(i)})
		}
	}
}

func (t *table) emptyPart() string {
	if !t.partitions() {
		return ""
	}
	return t.Partition.Null()
}
