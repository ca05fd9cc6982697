// Package schemas is what penstock knows before it asks: the catalogue of the
// platform's endpoints ([Load]), the types that columns can have and how they
// widen ([Join]), and how the source's fields become columns ([Column]). It holds
// data and rules; it reads nothing but the files compiled into it.
package schemas

import (
	"cmp"

	"github.com/apache/arrow-go/v18/arrow"
)

// Surface is one of the platform's two APIs.
type Surface string

// The two surfaces of the platform.
const (
	SurfaceV2  Surface = "v2"  // versioned: {base_url}/v2
	SurfaceApp Surface = "app" // application: {app_base_url}/api
)

// Class says what an endpoint is for, and with that whether a stream may
// request it: write and session endpoints never can. // Invariant 9
type Class string

// The classes of endpoints, as `penstock streams` prints them.
const (
	ClassList      Class = "list"      // many records, one request or many pages
	ClassBoard     Class = "board"     // records spread over the columns of a board
	ClassDetail    Class = "detail"    // one record of a parent's key
	ClassSingleton Class = "singleton" // the one object there is
	ClassLookup    Class = "lookup"    // small named lists for forms
	ClassReport    Class = "report"    // figures computed when asked for
	ClassFile      Class = "file"      // bytes that are not records
	ClassSession   Class = "session"   // sign in, refresh, sign out
	ClassWrite     Class = "write"     // changes the platform's data
)

// Readable reports whether a stream may request endpoints of this class.
func (c Class) Readable() bool { return c != ClassSession && c != ClassWrite }

// Mode says what becomes of a table's older rows when a record has changed or
// is gone.
type Mode string

// The modes, as pipelines.yaml names them. The zero value is Merge.
const (
	Merge   Mode = "merge"   // a row a key, the latest one; what is gone bears a tombstone
	Append  Mode = "append"  // a row for each version of a record that was seen; none is changed or removed
	Replace Mode = "replace" // exactly what the last complete pass found; what is gone is removed
	History Mode = "history" // a row for each version and when it was valid (SCD2); the current ones have no end
)

// Or is m, or other where m is not set.
func (m Mode) Or(other Mode) Mode {
	if m == "" {
		return other
	}
	return m
}

// Table is one table of a destination: its name, the columns that identify a
// row, and the columns themselves. A table without a key is a multiset: two
// equal rows are two rows. With Append and History the key identifies a record,
// and each of its versions is a row.
//
// Columns holds the source's fields first and penstock's own (`_penstock_*`)
// last. The metadata of a field says where it came from: see [SourceKey].
type Table struct {
	Name    string
	Key     []string
	Columns *arrow.Schema
	Mode    Mode
}

// Stream is one endpoint of the platform and the table it fills. It is data:
// whatever differs between endpoints stands in the catalogue, never in code. A
// Stream is a value; nobody changes one that was handed out.
type Stream struct {
	Table // Name and Key; Columns is nil until a destination or a mapper fills it

	Name    string  // <module>.<resource>, as users write it
	Surface Surface // which base URL and credential
	Module  string  // the part of Name before the dot
	Group   string  // title of the documented group of endpoints
	Method  string  // GET or POST for streams; any for writes
	Path    string  // as documented, with {name} for path parameters, below the surface's host
	Class   Class
	Media   string // of class file: the media type of its files; "" for any
	Auth    Auth   // which credential goes along
	Scope   string // what an OAuth grant must allow to read it; "" where the surface knows none

	Parent string  // stream whose records feed Params; "" for none
	Params []Param // every path parameter, and what query or body must carry

	// Records are candidate places of the records, the likeliest first: JSON
	// pointers into the body, with * for each element of an array or value of
	// an object. A place holds an array of records, an object whose keys are
	// all numbers and whose values are the records, or, in a detail, singleton
	// or report, the one record. A candidate fits if all its places do.
	Records []string

	// Context is the name under which each record is told which container it
	// was found in: the board's column, the group, or the key of the map that
	// the pointer's last * has passed.
	Context string

	// Twin is another stream that shows the same records by the same key. What the
	// one has and the other has not is missing from it.
	Twin string

	Pagination Pagination // hint; the zero value leaves it to detection

	// Stated says who states what of Path, Records, Key and Pagination, by
	// these names in lower case: StatedConfigured or StatedImported. What is absent is
	// the catalogue's hint. What is stated is checked, and never overruled.
	Stated map[string]string

	// Settled says that the first of Records is where they were found before.
	// Records anywhere else, or pages that go on in another way, are then an
	// error.
	Settled  bool
	Object   bool     // with Settled: the answer was one object, and not a list of one
	Volatile []string // top-level fields that change by being read; left out of the row hash

	// Reread says how many passes it may take, at most, until each parent has
	// been asked again although nothing about it has changed; 1: every pass asks
	// all. 0 leaves it to whoever reads.
	Reread int

	// Window says that the list shows some of its records, such as those of the
	// current month. What it lacks is not gone, and is never deleted.
	Window bool

	Incremental Incremental // how what has changed is asked for; the zero value reads the whole list
	Months      Months      // which parameters name the month that the list shows
	Range       Range       // of one reading: the part of the list that it asks for

	// Types are declared column types, as [ParseType] reads them. The key is
	// the column's path from the record, `__` between its members, through
	// arrays as well: items__unit_price is the column unit_price of the child
	// table items. A declaration is a hint: what does not fit widens the column.
	Types map[string]string

	// Description says what the records are, Descriptions what a column means, by
	// its path as in Types. Destinations keep them as comments.
	Description  string
	Descriptions map[string]string

	Rules Rules // what becomes of the records
	Log   bool  // what becomes of each row is kept in a log

	MaxColumns int // columns that the source's fields may have, in all tables of the stream; 0: [DefaultColumns]
	MaxTables  int // child tables; 0: [DefaultTables]

	Enabled bool   // part of "*"
	Reason  string // why not
}

// Readable reports whether the endpoint is a stream proper: one that may be
// requested. // Invariant 9
func (s Stream) Readable() bool { return s.Class.Readable() }

// The bounds of a stream that states none.
const (
	DefaultColumns = 1500 // a table of Postgres holds 1,600, with those of penstock and those that were dropped
	DefaultTables  = 200
)

// Bounds are how many columns and child tables the source's fields may have. What
// comes after them is kept in [ColRest].
func (s Stream) Bounds() (columns, tables int) {
	return cmp.Or(s.MaxColumns, DefaultColumns), cmp.Or(s.MaxTables, DefaultTables)
}

// Who has stated a part of a stream.
const (
	StatedConfigured = "configured" // pipelines.yaml
	StatedImported   = "imported"   // a published description, in pipelines.yaml
)

// Auth says which credential a stream's requests carry.
type Auth string

// The credentials a stream can ask for.
const (
	AuthBearer     Auth = ""           // the surface's own
	AuthNone       Auth = "none"       // public endpoint: no Authorization header
	AuthWhiteLabel Auth = "whitelabel" // server-to-server token, configured for the stream
)

// Param is one value a request needs. Parents' records that give the same values
// lead to one request, a record that lacks one of them to none.
type Param struct {
	Name  string // as the API calls it
	In    string // path, query or body
	From  string // JSON pointer into the parent's record, * for each element: /id, /entries/*/id
	Value string // a constant instead of From; both empty: only for streams that are not enabled
}

// Pagination is what is known beforehand about a stream's pages. Detection
// verifies it against the answers.
type Pagination struct {
	Type  string // none, page, offset, cursor, since_id, link, range; "" unknown
	Page  string // request parameter of the page number, offset or cursor; of a link "" for all of its parameters
	Size  string // request parameter of the page size; "" sends none
	Limit int    // size to ask for; 0: none

	Zero  bool   // pages are counted from 0
	One   bool   // offsets are counted from 1
	Field string // of since_id: the member of the last record that the parameter takes; "" its key or id
	Query bool   // of a POST: the parameters stand in the query, not in the body
	Order string // query that asks for a stable order, sort=id&direction=asc; "" for none
}

// SourceKey is the field metadata that names the source's field: a JSON pointer
// into the record (for child tables, into the element). Columns of penstock's
// own have none.
const SourceKey = "penstock:source"

// DescriptionKey is the metadata, of a field or of a table's schema, that says
// what it means.
const DescriptionKey = "penstock:description"

// TypeKey is the field metadata that tells JSON text ("json") from plain text;
// both are Arrow strings.
const TypeKey = "penstock:type"

// Penstock's own columns. The first five stand in every table, the next three
// in child tables; Ordinal travels with a batch and is never stored.
const (
	ColSyncedAt  = "_penstock_synced_at"
	ColRun       = "_penstock_run"
	ColHash      = "_penstock_hash"
	ColDeletedAt = "_penstock_deleted_at"
	ColVia       = "_penstock_via"

	ColParent = "_penstock_parent" // key of the row this one hangs from
	ColIndex  = "_penstock_index"  // position in the parent's array, from 0
	ColRoot   = "_penstock_root"   // key of the record, in tables more than one level down

	ColValidFrom = "_penstock_valid_from" // mode history: when this version was first seen
	ColValidTo   = "_penstock_valid_to"   // and when the next one was, or that it was gone; null: current

	ColRest = "_penstock_rest" // JSON: the record's members beyond the bound of columns and child tables

	ColSource = "_penstock_source" // where sources share a table: whose row it is; the first of every key

	ColOrdinal = "_penstock_ordinal" // which record of the pass a row came from, int64, rising
)
