package codec

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// The binary format of COPY begins with a signature, flags and the length of a header extension. The rows follow. Each
// row begins with the number of its fields. A trailer ends the stream.
const (
	copyHeader  = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	copyTrailer = "\xff\xff"
	copyChunk   = 64 << 10
)

// Column is a column to copy.
type Column struct {
	From string // column of the batch; "" for a column of nulls
	To   arrow.DataType
}

// Copier encodes staged rows as a stream for COPY. The stream can be read only once.
type Copier struct {
	Staged  *load.Staged
	Columns []Column
	Subset  *Ordinals                // ordinals of the rows to copy; nil: all rows
	Begins  map[int64]int64          // values of [schemas.ColValidFrom] by ordinal; may be nil
	JSONB   func(column string) bool // whether a column of the table has the type jsonb; nil: none has
	// Report is called for a value that the column cannot store unchanged; may be nil.
	Report func(b arrow.RecordBatch, column string, row int, raw, reason string)

	batch    int
	row      int
	encoders []*encoder
	ordinals []int64
	begun    bool
	done     bool
	buf      []byte
	read     int // number of bytes of buf that were read
	err      error
}

// Read implements [io.Reader].
func (c *Copier) Read(p []byte) (int, error) {
	for c.read == len(c.buf) {
		if c.done {
			return 0, io.EOF
		}
		c.buf, c.read = c.buf[:0], 0
		if c.err = c.fill(); c.err != nil {
			return 0, c.err
		}
	}
	n := copy(p, c.buf[c.read:])
	c.read += n
	return n, nil
}

// Err returns the error that has ended the stream early, or nil.
func (c *Copier) Err() error { return c.err }

// Rows returns the values of all rows. A null is a nil value. A caller uses either Rows or Read.
func (c *Copier) Rows() (rows [][][]byte, err error) {
	for _, b := range c.Staged.Batches {
		if err := c.open(b); err != nil {
			return nil, err
		}
		for row := range c.ordinals {
			values := make([][]byte, len(c.encoders))
			for i, e := range c.encoders {
				if v := e.append(nil, row); int32(binary.BigEndian.Uint32(v)) >= 0 {
					values[i] = v[4:]
				}
			}
			rows = append(rows, values)
		}
	}
	return rows, nil
}

// fill encodes rows until the buffer has a chunk.
func (c *Copier) fill() error {
	if !c.begun {
		c.begun = true
		c.buf = append(c.buf, copyHeader...)
	}
	for len(c.buf) < copyChunk {
		if c.encoders == nil {
			if c.batch == len(c.Staged.Batches) {
				c.done = true
				c.buf = append(c.buf, copyTrailer...)
				return nil
			}
			if err := c.open(c.Staged.Batches[c.batch]); err != nil {
				return err
			}
		}
		c.encode()
	}
	return nil
}

// encode appends rows of the current batch until the chunk is full or the batch ends.
func (c *Copier) encode() {
	n := len(c.ordinals)
	b := c.buf
	for ; c.row < n && len(b) < copyChunk; c.row++ {
		if c.Subset != nil && !c.Subset.has(c.ordinals[c.row]) {
			continue
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(c.encoders)))
		for _, e := range c.encoders {
			b = e.append(b, c.row)
		}
	}
	c.buf = b
	if c.row == n {
		c.batch, c.row, c.encoders = c.batch+1, 0, nil
	}
}

// The method open() creates the encoders for a batch.
func (c *Copier) open(b arrow.RecordBatch) error {
	c.ordinals = b.Column(b.Schema().FieldIndices(schemas.ColOrdinal)[0]).(*array.Int64).Int64Values()
	c.encoders = make([]*encoder, 0, len(c.Columns))
	for _, s := range c.Columns {
		e := &encoder{}
		if at := b.Schema().FieldIndices(s.From); c.Begins != nil && s.From == schemas.ColValidFrom {
			e = c.validity(b)
		} else if len(at) > 0 {
			f := format{jsonb: c.JSONB != nil && c.JSONB(s.From)}
			if c.Report != nil {
				f.note = func(row int, raw, reason string) { c.Report(b, s.From, row, raw, reason) }
			}
			var err error
			if e, err = f.encoderFor(b.Column(at[0]), schemas.TypeOf(b.Schema().Field(at[0])), s.To); err != nil {
				return fmt.Errorf("column %s: %w", s.From, err)
			}
		}
		c.encoders = append(c.encoders, e)
	}
	return nil
}

// validity returns an encoder for the column [schemas.ColValidFrom] of the batch's rows.
func (c *Copier) validity(b arrow.RecordBatch) *encoder {
	ordinals := b.Column(b.Schema().FieldIndices(schemas.ColOrdinal)[0]).(*array.Int64)
	return &encoder{ordinals, func(b []byte, row int) []byte {
		return binary.BigEndian.AppendUint64(b, uint64(c.Begins[ordinals.Value(row)]-epochMicros))
	}}
}

// Ordinals is a set of ordinals of staged rows. The ordinal of a row is the number of its record in the pass. In most
// commits, most of the ordinals are consecutive.
type Ordinals struct {
	base   int64
	bits   []uint64 // bitmap that begins at base; nil if the ordinals are too sparse
	sorted []int64  // the ordinals themselves, if bits is nil
}

// bitsEach is the greatest number of bits per ordinal for which a bitmap is used.
const bitsEach = 256

// NewOrdinals returns the set of the given ordinals. It may sort them in place.
func NewOrdinals(all []int64) *Ordinals {
	if len(all) == 0 {
		return &Ordinals{}
	}
	low, high := slices.Min(all), slices.Max(all)
	if span := uint64(high) - uint64(low); span/bitsEach > uint64(len(all)) {
		slices.Sort(all)
		return &Ordinals{sorted: all}
	}
	o := &Ordinals{base: low, bits: make([]uint64, (high-low)/64+1)}
	for _, n := range all {
		o.bits[(n-low)/64] |= 1 << ((n - low) % 64)
	}
	return o
}

func (o *Ordinals) has(n int64) bool {
	if o.sorted != nil {
		_, ok := slices.BinarySearch(o.sorted, n)
		return ok
	}
	i := n - o.base
	return n >= o.base && i/64 < int64(len(o.bits)) && o.bits[i/64]&(1<<(i%64)) != 0
}
