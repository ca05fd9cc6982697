// Package transform converts pages of raw records to Arrow record batches. It usually reads the bytes once, directly
// into column buffers.
//
// A [Mapper] finds the columns of a stream and their types while it reads the records. The types are those of the
// lattice in package schemas. They depend only on the values, not on their order. Every value is stored exactly. If
// necessary, the type of its column is widened. A value that no column can hold is a [Reject]. Nested objects are
// flattened. Arrays of objects become rows of child tables. Arrays of scalars are lists. Deeper values, and arrays of
// mixed values, are stored as JSON text.
//
// A [Shaper] applies the rules of the stream to the columns of the mapper's batches. It filters, masks, drops and
// renames, and enforces the contract.
//
// The package knows neither where pages come from nor where batches go.
package transform

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform/jsonscan"
)

// Mapper converts the records of one pass over a stream to record batches. One batch is for the table of the stream.
// Each array of objects has a child table with its own batch. A Mapper is not safe for concurrent use.
type Mapper struct {
	stream     schemas.Stream
	stamp      Stamp
	known      []schemas.Table
	declared   map[string]arrow.DataType // by path of the column
	volatile   map[string]bool
	rules      *fieldRules
	tableNamer *schemas.Namer
	mem        memory.Allocator

	root         *table
	scalars      *field    // field for records that are not objects
	key          []*column // key columns of the root table; nil until a record has the field
	own          rootColumns
	fixed        constants
	emptyColumns emptyColumns
	layout       int // grows when a table gets a column or a type is widened

	raw            []byte // pages of the batch, each followed by padding
	pages          []span
	last           flushed
	sum            sum      // hash of the current record, as far as it was read
	contextHash    uint64   // what the member _context has added to sum; 0: nothing
	clashes        *clashes // nil: records with the same key are not compared
	cuts           []cut
	cutBuffer      []byte // buffer for members with cuts
	lastOpaque     *field // field whose value was last stored as JSON text
	opaqueRedactor redactor
	patched        []byte // redacted JSON text of the current record

	changes   []change
	stale     bool // a type was widened, so the pages must be read again
	rereading bool

	full       bool // the current record must wait for the next batch
	unmeasured int  // number of rows since the columns were last measured
	capacity   capacity

	rejects  []Reject
	fetched  int64 // number of records so far, which is the ordinal of the current record
	refused  int64
	fetched0 int64
	refused0 int64

	bound bound
	walk  jsonscan.Walker
	scan  jsonscan.Scanner
}

type span struct {
	begin, end int
	first      int64 // ordinal of the page's first record
}

// NewMapper returns a mapper for one pass over s. known has the tables of the stream that the destination already
// has. The mapper starts with their columns and types. It ignores invalid types in s.
func NewMapper(s schemas.Stream, stamp Stamp, known []schemas.Table) *Mapper {
	m := &Mapper{
		stream:   s,
		stamp:    stamp,
		known:    known,
		declared: make(map[string]arrow.DataType, len(s.Types)),
		volatile: make(map[string]bool, len(s.Volatile)),
		rules:    newFieldRules(s),
		key:      make([]*column, len(s.Key)),
		mem:      memory.DefaultAllocator,
		bound:    newBound(s, known),
		capacity: capacity{batch: fullBytes, record: maxColumnBytes, rows: measuredRows},
	}
	for path, name := range s.Types {
		if t, err := schemas.ParseType(name); err == nil {
			m.declared[path] = t
		}
	}
	for _, name := range s.Volatile {
		m.volatile[name] = true
	}
	m.begin()
	return m
}

func (m *Mapper) begin() {
	m.tableNamer = schemas.NewTableNamer(m.stream.Table.Name, m.knownPaths())
	m.root = m.newTable(m.stream.Table.Name, "", nil)
	m.root.used = true
	m.root.object = newObject(m.root, "", 1, 1)
	m.root.object.root = true
	m.own = newRootColumns(m.mem)
	m.fixed = constants{stamp: m.stamp}
}

func (m *Mapper) knownPaths() map[string]string {
	paths := map[string]string{}
	for _, t := range m.known {
		if place := placeOf(t); place != "" {
			paths[place] = t.Name
		}
	}
	return paths
}

// SetAllocator makes m allocate its buffers from mem instead of Arrow's default allocator. It must be called before
// the first Append.
func (m *Mapper) SetAllocator(mem memory.Allocator) {
	m.mem = mem
	m.begin()
}

// Append adds the records of one page, a JSON array. If the columns are full, it stops and returns the part of the
// page that it did not add. The caller then calls Flush, and AppendMore with this rest. Append copies the page, so
// the caller may reuse its bytes.
//
// If the page is not a valid JSON array, Append adds nothing and returns a [*SyntaxError]. It also returns an error
// if the pages since the last Flush have more than 1 GiB. A record that cannot be stored is a [Reject], not an error.
// Append accepts raw control characters in strings.
func (m *Mapper) Append(records []byte) (rest []byte, err error) { return m.append(records, false) }

// AppendMore is like Append, for more records of the same page. They are another array, or the rest that Append or
// AppendMore has returned.
func (m *Mapper) AppendMore(records []byte) (rest []byte, err error) { return m.append(records, true) }

func (m *Mapper) append(records []byte, more bool) (rest []byte, err error) {
	m.last.raw = nil
	begin := len(m.raw)
	if begin+len(records) > maxBuffered {
		return nil, fmt.Errorf("buffer page of %d bytes: more than %d bytes since the last flush", len(records), maxBuffered)
	}
	m.raw = append(m.raw, records...)
	end := len(m.raw)
	m.raw = jsonscan.Pad(m.raw)

	m.changes, m.bound.admitted = m.changes[:0], m.bound.admitted[:0]
	k, rows, fetched, refused := m.mark(), m.root.rows, m.fetched, m.refused
	page := span{begin, end, fetched}
	if more {
		page.first = m.clashes.pageFirst()
	}
	taken, err := m.page(page)
	if err != nil {
		m.undo(k, m.root, rows)
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
func (m *Mapper) Rows() int { return m.root.rows }

// Bytes returns the size in bytes of the columns and rejects since the last Flush. It does not count the pages. It
// counts nulls, because they take space in a batch.
func (m *Mapper) Bytes() int64 {
	var n int64
	for i := range m.rejects {
		n += int64(len(m.rejects[i].Raw)) + rejectBytes
	}
	return n + m.columnBytes()
}

const rejectBytes = 256

// Fetched returns the number of records appended so far.
func (m *Mapper) Fetched() int64 { return m.fetched }

// Rejected returns the number of records rejected so far.
func (m *Mapper) Rejected() int64 { return m.refused }

// Tables returns the tables of the stream that are known so far, the root table first. Before the first record, the
// root table has the columns that the stream declares.
func (m *Mapper) Tables() []schemas.Table {
	if m.fetched == 0 && len(m.root.columns) == 0 {
		return []schemas.Table{m.declaredTable()}
	}
	var tables []schemas.Table
	m.root.each(func(t *table) {
		if t.used {
			tables = append(tables, m.describe(t))
		}
	})
	return tables
}

// Flush returns everything that was added since the last Flush: the rejects, and a batch for each table with rows.
// The batch of the root table is the first. The caller releases the batches.
func (m *Mapper) Flush() ([]TableBatch, []Reject) {
	if m.fetched0 == 0 && m.inferDecimals() {
		m.rebuild()
	}
	rejects := m.rejects
	m.rejects = nil
	var batches []TableBatch
	if m.root.rows > 0 {
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
	m.root.clear()
	m.own.clear()
	m.rejects = nil
	m.fetched, m.refused = m.fetched0, m.refused0
	m.clashes.undo()
}

// Close releases the buffers and everything that only further records would need. The counts stay available.
func (m *Mapper) Close() {
	m.root.discard()
	m.own.free()
	m.raw, m.pages, m.last = nil, nil, flushed{}
	if m.clashes != nil {
		m.clashes.seen = keyTable{}
	}
}
