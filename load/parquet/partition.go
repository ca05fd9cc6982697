package parquet

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// noDate is the folder name for rows without a date. Hive uses this name, and readers of such folders know it.
const noDate = "__HIVE_DEFAULT_PARTITION__"

func (l *Lake) partitioned(t schemas.Table) string {
	column, _ := partitionColumn(l.o.PartitionBy)
	f, ok := t.Columns.FieldsByName(column)
	if column == "" || !ok || t.Columns.HasField(schemas.ColParent) || load.IsInternal(t.Name) || !dated(schemas.TypeOf(f[0])) {
		return ""
	}
	return l.o.PartitionBy
}

func partitionColumn(spec string) (column string, month bool) {
	if column, ok := strings.CutSuffix(spec, ":month"); ok {
		return column, true
	}
	return strings.TrimSuffix(spec, ":day"), false
}

func dated(t arrow.DataType) bool { return t.ID() == arrow.DATE32 || t.ID() == arrow.TIMESTAMP }

// parts returns the partition of each row, such as issued_on_month=2026-11. The name before the = differs from the
// column's name, issued_on. If the names were equal, readers would take 2026-11 as the value of the column.
func (t *table) parts(columns []arrow.Array, rows int) []string {
	if t.Partition == "" {
		return nil
	}
	name, month := partitionColumn(t.Partition)
	column, out := columns[t.column(name)], make([]string, rows)
	unit, layout := "day", time.DateOnly
	if month {
		unit, layout = "month", "2006-01"
	}
	prefix := folderOf(name) + "_" + unit + "="
	last, folder := int64(-1<<63), ""
	for i := range out {
		day, ok := dayOf(column, i)
		switch {
		case !ok:
			out[i] = prefix + noDate
			continue
		case day != last || folder == "":
			last, folder = day, prefix+time.Unix(day*86400, 0).UTC().Format(layout)
		}
		out[i] = folder
	}
	return out
}

func dayOf(a arrow.Array, i int) (day int64, ok bool) {
	if a.IsNull(i) {
		return 0, false
	}
	switch a := a.(type) {
	case *array.Date32:
		return int64(a.Value(i)), true
	case *array.Timestamp:
		const micros = 86_400_000_000
		day = int64(a.Value(i)) / micros
		if int64(a.Value(i))%micros < 0 {
			day--
		}
		return day, true
	}
	return 0, false
}

func (m *merge) moveParts(f *family) {
	if f.t.Partition == "" {
		return
	}
	parts := make([][]string, len(f.staged.columns))
	for i := range f.supplied.rows {
		r := &f.supplied.rows[i]
		if r.outcome != replacing {
			continue
		}
		if b := r.ref.batch; parts[b] == nil {
			parts[b] = f.t.parts(f.staged.columns[b], f.staged.ordinals[b].Len())
		}
		if parts[r.ref.batch][r.ref.row] != r.seg.Part {
			r.outcome = inserted
			f.edit(r.seg, edit{row: r.row, kind: remove, by: int32(i)})
		}
	}
}

func (t *table) emptyPart() string {
	if t.Partition == "" {
		return ""
	}
	name, month := partitionColumn(t.Partition)
	if month {
		return fmt.Sprintf("%s_month=%s", folderOf(name), noDate)
	}
	return fmt.Sprintf("%s_day=%s", folderOf(name), noDate)
}
