// Package schemas contains what penstock knows in advance: the catalogue of the platform's endpoints ([Load]), the
// words of paging ([Paging]), the sets of masks ([LoadPresets]), the views ([LoadViews]) and the types of webhook
// events ([LoadEvents]). It also defines the types of columns and how they widen ([Join]), and the column name of
// each field ([Column]). The package reads only the files compiled into it.
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

// Class is the purpose of an endpoint. Streams can never request write and session endpoints. // Invariant 9
type Class string

// The classes of endpoints, as `penstock streams` prints them.
const (
	ClassList      Class = "list"      // many records, in one answer or many pages
	ClassBoard     Class = "board"     // records grouped by the columns of a board
	ClassDetail    Class = "detail"    // one record, by a key from the parent
	ClassSingleton Class = "singleton" // a single object
	ClassLookup    Class = "lookup"    // the lists of choices that a form needs
	ClassReport    Class = "report"    // figures computed on request
	ClassFile      Class = "file"      // a file, without records
	ClassSession   Class = "session"   // sign in, refresh, sign out
	ClassWrite     Class = "write"     // changes the platform's data
)

// Readable reports whether a stream may request endpoints of this class.
func (c Class) Readable() bool { return c != ClassSession && c != ClassWrite }

// Mode says what happens to a table's older rows when a record has changed or is gone.
type Mode string

// The modes, as pipelines.yaml names them. The zero value is Merge.
const (
	Merge   Mode = "merge"   // one row for each key, the latest version; the row of a deleted record becomes a tombstone
	Append  Mode = "append"  // one row for each version of a record; rows are never changed or removed
	Replace Mode = "replace" // exactly the records of the last complete pass; other rows are removed
	History Mode = "history" // one row for each version with its validity period (SCD2); current versions have no end
)

// Or returns m, or other if m is not set.
func (m Mode) Or(other Mode) Mode {
	if m == "" {
		return other
	}
	return m
}

// Table is a table of a destination: its name, the columns that identify a row, and all columns. A table
// without a key is a multiset: two equal rows are two rows. With Append and History the key identifies a
// record, and each of its versions is a row.
//
// Columns contains the source's fields first and penstock's own columns (`_penstock_*`) last. The metadata of each
// Arrow field says which field of the source it holds: see [SourceKey].
type Table struct {
	Name    string
	Key     []string
	Columns *arrow.Schema
	Mode    Mode
}

// Stream is one endpoint of the platform and the table that it fills. It is data: all differences between endpoints
// are in the catalogue, not in code. Copies of a Stream share its slices and maps, so do not change them.
type Stream struct {
	Table // Name and Key; a destination or a mapper sets Columns

	Name    string  // <module>.<resource>, as users write it
	Surface Surface // selects base URL and credential
	Module  string  // the part of Name before the dot
	Group   string  // title of the documented group of endpoints
	Method  string  // GET or POST for streams; any for writes
	Path    string  // as documented, with {name} for path parameters, without the host
	Class   Class
	Media   string // of class file: the media type of its files; "" for any
	Auth    Auth   // the credential to send
	Scope   string // scope that an OAuth grant needs to read the stream; "" if the surface has no scopes

	Parent string  // stream whose records provide Params; "" for none
	Params []Param // all path parameters, and required query or body parameters

	// Records are the places where the records may be, the likeliest first. Each is a JSON pointer into the body,
	// such as /data/*/leads, in which * stands for every element of an array or every value of an object. A place
	// holds an array of records, an object of records with only numeric keys or, for a detail, singleton or report,
	// the one record.
	Records []string

	// Context is a name, such as stage. Each record gets a member _context, in which this name holds what the last *
	// of the pointer has matched: the scalar members of the board's stage or the group, or the key of the map entry.
	Context string

	// Twin is another stream with the same records and the same key. A record that only one of the two streams
	// returns is missing from the other one's list.
	Twin string

	Pagination Pagination // a hint; the zero value means that it is detected

	// Stated says who has stated a part of the stream: StatedConfigured or StatedImported. Its keys are path,
	// records, key, pagination, incremental, months and parent. A part without an entry is a hint of the catalogue.
	// Stated parts are checked, but never overruled.
	Stated map[string]string

	// RecordsKnown says that the first of Records is where an earlier run found the records. Records in another
	// place, or another way of paging, are then an error.
	RecordsKnown bool
	Object       bool     // with RecordsKnown: the answer was a single object, not a list
	Volatile     []string // top-level fields that change although the record does not; not part of the row hash

	// RereadPasses is a number of passes. Within that many passes each parent is requested at least once, even if its
	// record has not changed. 1 means that every pass requests all parents. 0 means that the caller decides.
	RereadPasses int

	// Window says that the list shows only some of its records, such as those of the current month. So a record that
	// is missing from the list is not taken for deleted.
	Window bool

	Incremental Incremental // how changes are requested; the zero value reads the whole list
	Months      Months      // parameters that name the list's month
	Range       Range       // of one reading: the part of the list to request

	// Types are declared column types, as [ParseType] reads them. The key is the column's path from the record,
	// with `__` between members, also through arrays: items__unit_price is the column unit_price of the child
	// table items. A declaration is a hint: a value that does not fit widens the column.
	Types map[string]string

	// Description says what the records are. Descriptions says what the columns mean, by column path as in Types.
	// Destinations store them as comments.
	Description  string
	Descriptions map[string]string

	Rules Rules // what happens to the records
	Log   bool  // log what happens to each row

	MaxColumns int // greatest number of columns for the source's fields, in all tables of the stream; 0: [DefaultColumns]
	MaxTables  int // greatest number of child tables; 0: [DefaultTables]

	Enabled bool   // selected by "*"
	Reason  string // why the stream is not enabled; "" if it is
}

// Readable reports whether a stream may request the endpoint. // Invariant 9
func (s Stream) Readable() bool { return s.Class.Readable() }

// The default bounds of a stream.
const (
	DefaultColumns = 1500 // Postgres allows 1,600, including penstock's own and dropped columns
	DefaultTables  = 200
)

// Bounds returns the greatest numbers of columns and child tables for the source's fields. Further fields are
// stored in [ColRest].
func (s Stream) Bounds() (columns, tables int) {
	return cmp.Or(s.MaxColumns, DefaultColumns), cmp.Or(s.MaxTables, DefaultTables)
}

// The values of Stream.Stated.
const (
	StatedConfigured = "configured" // by the user, in pipelines.yaml
	StatedImported   = "imported"   // by `penstock import`, in pipelines.yaml
)

// Auth is the credential that a stream's requests send.
type Auth string

// The kinds of credentials.
const (
	AuthBearer     Auth = ""           // the surface's own credential
	AuthNone       Auth = "none"       // public endpoint: no Authorization header
	AuthWhiteLabel Auth = "whitelabel" // server-to-server token, configured for the stream
)

// Param is a value that a request needs. Parent records with the same values share one request. Nothing is requested
// for a parent record without a value that the path or the stream's key needs.
type Param struct {
	Name  string // its name in the API
	In    string // path, query or body
	From  string // JSON pointer into the parent's record, * for each element: /id, /entries/*/id
	Value string // a constant instead of From; both are empty only for streams that are not enabled
}

// Pagination is what is known in advance about a stream's pages. Detection checks it against the answers.
type Pagination struct {
	Type  string // none, page, offset, cursor, since_id, link, range; "" if unknown
	Page  string // request parameter of the page number, offset or cursor; for type link, "" sends all parameters of the link
	Size  string // request parameter of the page size; "" sends none
	Limit int    // page size to request; 0: none

	Zero  bool   // page numbers start at 0
	One   bool   // offsets start at 1
	Field string // for since_id: the member of the last record to send; "" for its key or id
	Query bool   // for a POST: parameters go into the query, not the body
	Order string // query parameters that request a stable order, sort=id&direction=asc; "" for none
}

// SourceKey is the metadata key of an Arrow field that says which field of the source it holds. The value is a JSON
// pointer into the record or, in child tables, into the nested object. Penstock's own columns do not have it.
const SourceKey = "penstock:source"

// DescriptionKey is the metadata key, of an Arrow field or of a table's schema, for the description.
const DescriptionKey = "penstock:description"

// TypeKey is the metadata key of an Arrow field that distinguishes JSON text (value "json") from plain text. Both are
// Arrow strings.
const TypeKey = "penstock:type"

// Penstock's own columns. The first five are in every table. ColParent and ColIndex are in child tables, ColRoot only
// in those below another child table. ColOrdinal is only in batches and is never stored.
const (
	ColSyncedAt  = "_penstock_synced_at"
	ColRun       = "_penstock_run"
	ColHash      = "_penstock_hash"
	ColDeletedAt = "_penstock_deleted_at"
	ColVia       = "_penstock_via"

	ColParent = "_penstock_parent"
	ColIndex  = "_penstock_index"
	ColRoot   = "_penstock_root"

	ColValidFrom = "_penstock_valid_from"
	ColValidTo   = "_penstock_valid_to"

	ColRest = "_penstock_rest"

	ColSource = "_penstock_source"

	ColOrdinal = "_penstock_ordinal" // number of the record within the pass, int64, increasing
)

// Meaning returns what one of penstock's own columns means, "" for any other column.
func Meaning(column string) string {
	switch column {
	case ColSource:
		return "the source of the row, where sources share a table; the first column of every key"
	case ColSyncedAt:
		return "time of the commit that wrote this row; it grows with every commit to the table"
	case ColRun:
		return "the run that wrote this row"
	case ColHash:
		return "hash of the record, by which a later run finds out whether it has changed"
	case ColDeletedAt:
		return "when the source was found to have deleted the record; null for a living row"
	case ColVia:
		return "how the row came: poll, webhook or backfill"
	case ColParent:
		return "key of the row that this child row belongs to"
	case ColIndex:
		return "position in the parent's list, from 0"
	case ColRoot:
		return "key of the record, in tables more than one level down"
	case ColRest:
		return "JSON of the record's members beyond max_columns and max_tables of the stream"
	case ColValidFrom:
		return "mode history: when this version was first seen"
	case ColValidTo:
		return "mode history: when the next version was first seen, or the record was gone; null for the current version"
	}
	return ""
}
