package transform

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
)

type rootColumns struct{ ordinal, hash *vector }

func newRootColumns(mem memory.Allocator) rootColumns {
	return rootColumns{ordinal: newVector(mem, schemas.Int64), hash: newVector(mem, schemas.Text)}
}

func (o *rootColumns) append(row int, ordinal int64, s *sum) {
	if row >= o.ordinal.room {
		o.ordinal.grow(row)
	}
	o.ordinal.ints[row] = ordinal
	o.ordinal.n = row + 1
	h := o.hash
	if row >= h.room {
		h.grow(row)
	}
	if h.used+hashSize > len(h.data) {
		h.stretch(h.used, hashSize)
	}
	s.write(h.data[h.used:])
	h.used += hashSize
	h.offsets[row+1] = int32(h.used)
	h.n = row + 1
}

func (o *rootColumns) truncate(row int) {
	o.ordinal.truncate(row)
	o.hash.truncate(row)
}

func (o *rootColumns) clear() {
	o.ordinal.clear()
	o.hash.clear()
}

func (o *rootColumns) free() {
	o.ordinal.free()
	o.hash.free()
}

// constants are the columns with the same value in all rows. Their arrays are as long as the longest batch so far. A
// shorter batch uses a slice of them.
type constants struct {
	stamp   Stamp
	rows    int
	synced  arrow.Array
	run     arrow.Array
	deleted arrow.Array
	via     arrow.Array
}

func (c *constants) reserve(rows int) {
	if rows <= c.rows {
		return
	}
	rows = max(rows, 2*c.rows, firstRoom)
	micros := make([]int64, rows)
	for i := range micros {
		micros[i] = c.stamp.SyncedAt.UnixMicro()
	}
	none := make([]byte, (rows+7)/8)
	c.synced = fixedArray(schemas.Timestamp, rows, nil, arrow.Int64Traits.CastToBytes(micros))
	c.deleted = fixedArray(schemas.Timestamp, rows, none, make([]byte, 8*rows))
	c.run = sameText(c.stamp.Run, rows)
	c.via = sameText(c.stamp.Via, rows)
	c.rows = rows
}

func fixedArray(t arrow.DataType, rows int, valid, values []byte, more ...[]byte) arrow.Array {
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(values)}
	nulls := 0
	if valid != nil {
		buffers[0] = memory.NewBufferBytes(valid)
		nulls = rows
	}
	for _, b := range more {
		buffers = append(buffers, memory.NewBufferBytes(b))
	}
	data := array.NewData(t, rows, buffers, nil, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

func sameText(s string, rows int) arrow.Array {
	offsets := make([]int32, rows+1)
	data := make([]byte, 0, rows*len(s)+1)
	for i := range rows {
		data = append(data, s...)
		offsets[i+1] = int32(len(data))
	}
	return fixedArray(schemas.Text, rows, nil, arrow.Int32Traits.CastToBytes(offsets), data[:cap(data)])
}

// slice returns the columns of penstock that every table has, with the given number of rows. The caller releases the
// columns.
func (c *constants) slice(hash arrow.Array, rows int) []arrow.Array {
	cut := func(a arrow.Array) arrow.Array { return array.NewSlice(a, 0, int64(rows)) }
	return []arrow.Array{cut(c.synced), cut(c.run), hash, cut(c.deleted), cut(c.via)}
}

func ownFields(level int, key arrow.DataType) []arrow.Field {
	field := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true}
	}
	fields := []arrow.Field{
		field(schemas.ColSyncedAt, schemas.Timestamp),
		field(schemas.ColRun, schemas.Text),
		field(schemas.ColHash, schemas.Text),
		field(schemas.ColDeletedAt, schemas.Timestamp),
		field(schemas.ColVia, schemas.Text),
	}
	switch {
	case level == 1:
		fields = append(fields, field(schemas.ColParent, key), field(schemas.ColIndex, schemas.Int64))
	case level > 1:
		fields = append(fields, field(schemas.ColParent, schemas.Text), field(schemas.ColIndex, schemas.Int64),
			field(schemas.ColRoot, key))
	}
	return append(fields, field(schemas.ColOrdinal, schemas.Int64))
}
