package load

import (
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
)

// CommitTime returns the time for a commit, from the current time and the time of the stream's previous commit. If the
// current time is later, it is the result. Otherwise the result is one microsecond after the previous commit. A
// destination must hold the stream's lock when it calls CommitTime. Then later commits to a table have later times,
// even if the clock is set back. // Invariant 8
func CommitTime(now, previous time.Time) time.Time {
	if now.After(previous) {
		return now
	}
	return previous.Add(time.Microsecond)
}

// SetSyncedAt sets [schemas.ColSyncedAt] of all rows to the time of the commit that writes them. Penstock's own tables
// have no such column. SetSyncedAt may be called again with another time.
func SetSyncedAt(pending []*Staged, at time.Time) {
	longest := int64(0)
	for _, s := range pending {
		for _, b := range s.Batches {
			longest = max(longest, b.NumRows())
		}
	}
	if longest == 0 {
		return
	}
	times := constant(at, int(longest))
	defer times.Release()
	for _, s := range pending {
		if IsInternal(s.Name) {
			continue
		}
		for i, b := range s.Batches {
			s.Batches[i] = synced(b, times)
		}
	}
}

func constant(at time.Time, rows int) arrow.Array {
	values := make([]arrow.Timestamp, rows)
	micros := arrow.Timestamp(at.UnixMicro())
	for i := range values {
		values[i] = micros
	}
	b := memory.NewBufferBytes(arrow.TimestampTraits.CastToBytes(values))
	data := array.NewData(schemas.Timestamp, rows, []*memory.Buffer{nil, b}, nil, 0, 0)
	defer data.Release()
	return array.NewTimestampData(data)
}

// synced replaces [schemas.ColSyncedAt] of each row by the time at the same index of times, and releases b. If b
// lacks the column, synced returns b itself.
func synced(b arrow.RecordBatch, times arrow.Array) arrow.RecordBatch {
	at := b.Schema().FieldIndices(schemas.ColSyncedAt)
	if len(at) == 0 {
		return b
	}
	column := array.NewSlice(times, 0, b.NumRows())
	defer column.Release()
	columns := slices.Clone(b.Columns())
	columns[at[0]] = column
	out := array.NewRecordBatch(b.Schema(), columns, b.NumRows())
	b.Release()
	return out
}
