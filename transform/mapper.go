// Package transform turns pages of raw records into Arrow record batches: one
// pass over the bytes, straight into column buffers.
//
// A [Mapper] learns the shape of a stream's records while it reads them. Types
// are those of the lattice in package schemas, and depend on the values alone,
// not on their order; a value is stored exactly, or its column's type grows
// until it can be, or it is a [Reject]. Nested objects are flattened, arrays of
// objects become rows of child tables, everything else is a list or JSON text.
//
// A [Shaper] behind the mapper makes of the columns what the stream's rules say:
// it filters, masks, drops and renames, and holds the schema to its contract.
//
// The package knows nothing about where pages come from or batches go.
package transform

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
)

// Mapper turns the records of one pass over a stream into record batches: of
// the stream's table, and of child tables for arrays of objects. It belongs to
// one goroutine.
type Mapper struct {
	stream     schemas.Stream
	stamp      Stamp
	known      []schemas.Table
	declared   map[string]arrow.DataType // by path of column names
	volatile   map[string]bool
	rulings    *fieldRules
	tableNamer *schemas.Namer
	mem        memory.Allocator

	root     *table
	scalars  *field    // of records that are no objects
	key      []*column // of the root table; nil until the field was seen
	own      rootColumns
	fixed    constants
	nothings nothings
	layout   int // changes whenever a table gains a column or a type grows

	raw         []byte // the pages of the batch, each with padding behind it
	pages       []span
	last        flushed
	sum         sum      // of the record being read
	contextHash uint64   // the part of its contextHash in sum; 0 for none
	clashes     *clashes // nil: records of one key are not compared
	cuts        []cut    // of the member being read
	left        []byte   // of a member that was cut
	opaqued     *field   // whose value was stored as JSON text last
	inner       redactor // of what is in JSON text
	patched     []byte   // JSON text of the record as the redactor has left it

	changes []change
	stale   bool // some type grew: what is buffered has to be read again
	again   bool // it is being read again

	full       bool // the record at hand has to wait for the next batch
	unmeasured int  // rows since the columns were measured
	capacity   capacity

	rejects  []Reject
	fetched  int64 // records so far: the ordinal of the one being read
	refused  int64 // records left out so far
	fetched0 int64 // both as of the beginning of the batch
	refused0 int64

	bound bound
	walk  walker
	tokens
}

// span is a stretch of raw: a page, or further records of the page before.
type span struct {
	begin, end int
	first      int64 // ordinal of the first record of the page
}

// NewMapper makes a mapper for one pass over s. It starts from the tables as
// the destination has them, from their types and from the columns that their
// metadata gives to the source's fields: known holds any of the stream's tables.
// Types that s declares wrongly are taken as not declared.
func NewMapper(s schemas.Stream, stamp Stamp, known []schemas.Table) *Mapper {
	m := &Mapper{
		stream:   s,
		stamp:    stamp,
		known:    known,
		declared: make(map[string]arrow.DataType, len(s.Types)),
		volatile: make(map[string]bool, len(s.Volatile)),
		rulings:  newRulings(s),
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

// begin makes the root table.
func (m *Mapper) begin() {
	m.tableNamer = schemas.NewTableNamer(m.stream.Table.Name, m.knownPaths())
	m.root = m.newTable(m.stream.Table.Name, "", nil)
	m.root.used = true
	m.root.object = newObject(m.root, "", 1, 1)
	m.root.object.root = true
	m.own = newRootColumns(m.mem)
	m.fixed = constants{stamp: m.stamp}
}

// knownPaths are the names of the child tables whose place in the record is
// known from the metadata of their schema.
func (m *Mapper) knownPaths() map[string]string {
	paths := map[string]string{}
	for _, t := range m.known {
		if place := placeOf(t); place != "" {
			paths[place] = t.Name
		}
	}
	return paths
}

// SetAllocator makes m take its buffers from mem instead of Arrow's default. It
// must come before the first Append.
func (m *Mapper) SetAllocator(mem memory.Allocator) {
	m.mem = mem
	m.begin()
}

// Append adds the records of one page, a JSON array. It stops when the columns are
// full: rest is what it did not add, and is empty where it added everything. The
// caller calls Flush, and then AppendMore with rest. The bytes are copied; they may be
// reused. An error is a [*SyntaxError] and means that nothing of records was kept; a
// record that cannot be kept is a [Reject] and no error. Raw control characters in
// strings are taken for what they stand for.
func (m *Mapper) Append(records []byte) (rest []byte, err error) { return m.append(records, false) }

// AppendMore is Append for further records of the page that was appended last: another
// array, or the rest that Append or AppendMore has returned.
func (m *Mapper) AppendMore(records []byte) (rest []byte, err error) { return m.append(records, true) }

func (m *Mapper) append(records []byte, more bool) (rest []byte, err error) {
	m.last.raw = nil
	begin := len(m.raw)
	if begin+len(records) > maxBuffered {
		return nil, fmt.Errorf("buffer page of %d bytes: more than %d bytes since the last flush", len(records), maxBuffered)
	}
	m.raw = append(m.raw, records...)
	end := len(m.raw)
	m.raw = append(m.raw, zeros[:]...)

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
		if escaped, ok := escapeControls(records); ok {
			if rest, e := m.append(escaped, more); e == nil {
				return rest, nil
			}
		}
		return nil, err
	}
	if taken < end {
		rest = records[taken-begin:]
		page.end = taken
		m.raw = append(m.raw[:taken], zeros[:]...)
	}
	if taken == begin {
		m.raw = m.raw[:begin]
		return rest, nil
	}
	m.pages = append(m.pages, page)
	m.rebuild()
	return rest, nil
}

var zeros [padding]byte

// maxBuffered keeps the offsets of a column of text within 32 bits.
const maxBuffered = 1 << 30

// Rows is the number of rows of the root table that are buffered.
func (m *Mapper) Rows() int { return m.root.rows }

// Bytes is the size of what is buffered in columns and rejects, the rows without a
// value among them, which take their place in a batch. As much again, at most, is
// held of the pages.
func (m *Mapper) Bytes() int64 {
	var n int64
	for i := range m.rejects {
		n += int64(len(m.rejects[i].Raw)) + rejectBytes
	}
	return n + m.columnBytes()
}

// rejectBytes is what a reject takes beside its raw value.
const rejectBytes = 256

// Fetched is the number of records appended so far.
func (m *Mapper) Fetched() int64 { return m.fetched }

// Rejected is the number of records left out so far.
func (m *Mapper) Rejected() int64 { return m.refused }

// Tables are the stream's tables as they are known by now, the root table
// first. Before any record was seen, the root table has the columns that the
// catalogue declares.
func (m *Mapper) Tables() []schemas.Table {
	if m.fetched == 0 && len(m.root.columns) == 0 {
		return []schemas.Table{m.promise()}
	}
	var tables []schemas.Table
	m.root.each(func(t *table) {
		if t.used {
			tables = append(tables, m.describe(t))
		}
	})
	return tables
}

// Flush hands everything buffered away: a batch for each table that has rows,
// the root table's first, and what was rejected. Whoever calls it releases the
// batches.
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

// keepRaw is the most that is kept of a buffer for pages.
const keepRaw = 64 << 20

// clear forgets what is buffered, but for the pages.
func (m *Mapper) clear() {
	m.root.clear()
	m.own.clear()
	m.rejects = nil
	m.fetched, m.refused = m.fetched0, m.refused0
	m.clashes.undo()
}

// Close gives back what is buffered and was not flushed, and all memory that only
// further records would need. The counts stay.
func (m *Mapper) Close() {
	m.root.discard()
	m.own.free()
	m.raw, m.pages, m.last = nil, nil, flushed{}
	if m.clashes != nil {
		m.clashes.seen = keyTable{}
	}
}
