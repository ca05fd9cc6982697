// Package transform converts pages of raw records to Arrow record batches. It usually reads the bytes once, directly
// into column buffers.
//
// A [Mapper] finds the columns of a stream and their types while it reads the records. The types belong to the lattice
// in package schemas. They depend only on the values, not on the order of the values. Every value is stored exactly. If
// necessary, the type of its column is widened. A value that no column can hold is a [Reject]. Nested objects are
// flattened. Arrays of objects become rows of child tables. Arrays of scalars are lists. Deeper values, and arrays of
// mixed values, are stored as JSON text.
//
// A [Shaper] applies the rules of the stream to the columns of the mapper's batches. It filters, masks, drops and
// renames, and enforces the contract.
//
// The package does not know where pages come from or where batches go.
package transform

import (
	"errors"
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform/jsonscan"
)

// Mapper converts the records of one pass over a stream to record batches. One batch is for the table of the stream.
// Each array of objects has a child table with its own batch. A Mapper is not safe for concurrent use.
type Mapper struct {
	tables  tableSet
	rejects rejects
	read    reader

	own          rootColumns
	fixed        constants
	emptyColumns emptyColumns

	raw     []byte // pages of the batch, each followed by padding
	pages   []span
	last    flushed
	clashes *clashes // nil: records with the same key are not compared

	fetched  int64 // number of records so far, which is the ordinal of the current record
	refused  int64
	fetched0 int64 // value of fetched at the beginning of the batch
	refused0 int64
}

type span struct {
	begin, end int
	first      int64 // ordinal of the page's first record
}

// NewMapper returns a mapper for one pass over s. The last argument lists the tables of this stream that exist in the
// destination. The mapper starts with their columns and types. NewMapper ignores invalid types in s.
func NewMapper(s schemas.Stream, stamp Stamp, known []schemas.Table) *Mapper {
	m := &Mapper{tables: newTableSet(s, known), fixed: constants{stamp: stamp}}
	m.rejects = rejects{stream: s.Name, rules: m.tables.rules}
	m.read = reader{
		tables: &m.tables, rejects: &m.rejects,
		capacity: capacity{batch: fullBytes, record: maxColumnBytes, rows: measuredRows},
	}
	m.SetAllocator(memory.DefaultAllocator)
	return m
}

// SetAllocator makes m allocate its buffers from mem instead of Arrow's default allocator. It must be called before
// the first Append.
func (m *Mapper) SetAllocator(mem memory.Allocator) {
	m.tables.mem = mem
	m.tables.begin()
	m.own = newRootColumns(mem)
}

// Append adds the records of one page, a JSON array. If the columns are full, Append stops and returns the part of the
// page that it did not add. [Mapper.AppendParts] adds whole pages. Append copies the page, so the caller may reuse its
// bytes.
//
// If the page is not a valid JSON array, Append adds nothing and returns a [*SyntaxError]. It also returns an error if
// the pages since the last Flush are together larger than 1 GiB. A record that cannot be stored is a [Reject], not an
// error. Append accepts raw control characters in strings.
func (m *Mapper) Append(records []byte) (rest []byte, err error) { return m.append(records, false) }

// AppendParts adds a page that consists of several arrays, given with their offsets in the page. It yields after each
// part, and whenever the columns are full. If the columns are full, the yielded bool is true, and the caller must call
// Flush. A [*SyntaxError] has the offset of the record in the page, and its position among the records. // Invariant 6
func (m *Mapper) AppendParts(parts iter.Seq2[int, []byte]) iter.Seq2[bool, error] {
	return func(yield func(bool, error) bool) {
		before := m.Fetched()
		for offset, part := range parts {
			more := offset > 0
			for rest := part; len(rest) > 0; more = true {
				records, at := m.Fetched()-before, offset+max(0, len(part)-len(rest))
				var err error
				rest, err = m.append(rest, more)
				if broken, ok := errors.AsType[*SyntaxError](err); ok {
					broken.Offset, broken.Record = broken.Offset+at, broken.Record+records
				}
				if !yield(len(rest) > 0, err) || err != nil {
					return
				}
			}
		}
	}
}

func (m *Mapper) append(records []byte, more bool) (rest []byte, err error) {
	m.last.raw = nil
	begin := len(m.raw)
	if begin+len(records) > maxBuffered {
		return nil, fmt.Errorf("buffer page of %d bytes: more than %d bytes since the last flush", len(records), maxBuffered)
	}
	m.raw = append(m.raw, records...)
	end := len(m.raw)
	m.raw = jsonscan.Pad(m.raw)

	m.tables.forget()
	root := m.tables.root
	k, rows, fetched, refused := m.read.mark(), root.rows, m.fetched, m.refused
	page := span{begin, end, fetched}
	if more {
		page.first = m.clashes.pageFirst()
	}
	taken, err := m.page(page)
	if err != nil {
		m.read.undo(k, root, rows)
		m.own.truncate(rows)
		m.fetched, m.refused = fetched, refused
		m.raw = m.raw[:begin]
		if escaped, ok := jsonscan.EscapeControls(records); ok {
			if rest, e := m.append(escaped, more); e == nil {
				return rest, nil
			}
		}
		return nil, err
	}
	if taken < end {
		rest = records[taken-begin:]
		page.end = taken
		m.raw = jsonscan.Pad(m.raw[:taken])
	}
	if taken == begin {
		m.raw = m.raw[:begin]
		return rest, nil
	}
	m.pages = append(m.pages, page)
	m.rebuild()
	return rest, nil
}

// maxBuffered limits the bytes of the pages in one batch. So the offsets of a text column fit into 32 bits.
const maxBuffered = 1 << 30

// Rows returns the number of rows of the root table since the last Flush.
func (m *Mapper) Rows() int { return m.tables.root.rows }

// Bytes returns the size in bytes of the columns and rejects since the last Flush. It does not count the pages. It
// counts nulls, because they take space in a batch.
func (m *Mapper) Bytes() int64 {
	return m.rejects.bytes() + m.tables.bytes()
}

// Fetched returns the number of records appended so far.
func (m *Mapper) Fetched() int64 { return m.fetched }

// Rejected returns the number of records rejected so far.
func (m *Mapper) Rejected() int64 { return m.refused }

// Tables returns the tables of the stream that are known so far, the root table first. Before the first record, the
// root table has the columns that the stream declares.
func (m *Mapper) Tables() []schemas.Table {
	if m.fetched == 0 && len(m.tables.root.columns) == 0 {
		return []schemas.Table{m.tables.declaredTable()}
	}
	var tables []schemas.Table
	m.tables.root.each(func(t *table) {
		if t.used {
			tables = append(tables, m.tables.describe(t))
		}
	})
	return tables
}

// Flush returns everything that was added since the last Flush: the rejects, and a batch for each table with rows.
// The batch of the root table is the first. The caller releases the batches.
func (m *Mapper) Flush() ([]TableBatch, []Reject) {
	if m.fetched0 == 0 && m.tables.inferDecimals() {
		m.rebuild()
	}
	rejects := m.rejects.list
	m.rejects.list = nil
	var batches []TableBatch
	if m.tables.root.rows > 0 {
		batches = m.batches()
	}
	m.last = flushed{raw: m.raw, pages: append(m.last.pages[:0], m.pages...), first: m.fetched0}
	m.fetched0, m.refused0 = m.fetched, m.refused
	m.clashes.flush()
	m.clear()
	m.pages = m.pages[:0]
	m.raw = m.raw[:0]
	if cap(m.raw) > keepRaw {
		m.raw = nil
	}
	return batches, indexed(rejects)
}

const keepRaw = 64 << 20

func (m *Mapper) clear() {
	m.tables.root.clear()
	m.own.clear()
	m.rejects.list = nil
	m.fetched, m.refused = m.fetched0, m.refused0
	m.clashes.undo()
}

// Close releases the buffers and all other memory that m would need for further records. The counts stay available.
func (m *Mapper) Close() {
	m.tables.root.discard()
	m.own.free()
	m.raw, m.pages, m.last = nil, nil, flushed{}
	if m.clashes != nil {
		m.clashes.seen = keyTable{}
	}
}
