// Package schemas contains what penstock knows in advance about the platform: the catalogue of its endpoints
// ([Load]), the words of paging ([Paging]), the sets of masks ([LoadPresets]), the views ([LoadViews]) and the types
// of webhook events ([LoadEvents]). It also defines the types of columns and how they widen ([Join]), and the column
// name of each field ([Column]). The package reads only files that are compiled into it.
package schemas

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// Surface is one of the platform's two APIs.
type Surface string

// The two surfaces of the platform.
const (
	SurfaceV2  Surface = "v2"  // versioned: {base_url}/v2
	SurfaceApp Surface = "app" // application: {app_base_url}/api
)

// Class says what an endpoint is for. A stream cannot request endpoints of the classes write and session.
// Invariant 9
type Class string

// The classes of endpoints. `penstock streams` prints them.
const (
	ClassList      Class = "list"      // many records, in one answer or many pages
	ClassBoard     Class = "board"     // records grouped by the columns of a board
	ClassDetail    Class = "detail"    // one record, requested by a value of the parent record
	ClassSingleton Class = "singleton" // a single object, without a key
	ClassLookup    Class = "lookup"    // lists of choices for a form
	ClassReport    Class = "report"    // figures that are computed on request
	ClassFile      Class = "file"      // a file, without records
	ClassSession   Class = "session"   // login, refresh, logout
	ClassWrite     Class = "write"     // changes the platform's data
)

// Readable reports whether a stream may request endpoints of this class.
func (c Class) Readable() bool { return c != ClassSession && c != ClassWrite }

// Single reports whether the endpoints of a class may answer with one object.
func (c Class) Single() bool {
	return c == ClassDetail || c == ClassSingleton || c == ClassReport || c == ClassFile
}

// Mode says what happens to older rows of a table when a record has changed or was deleted.
type Mode string

// The modes, as in pipelines.yaml. The zero value means Merge.
const (
	Merge   Mode = "merge"   // one row per key, with the latest version; the row of a deleted record becomes a tombstone
	Append  Mode = "append"  // one row per version of a record; rows are never changed or removed
	Replace Mode = "replace" // exactly the records of the last complete pass; all other rows are removed
	// one row per version, with its period of validity (SCD2); the current version's period has no end
	History Mode = "history"
)

// EndColumn returns the column that is null in the current rows of a table.
func (m Mode) EndColumn() string {
	if m == History {
		return ColValidTo
	}
	return ColDeletedAt
}

// Or returns m, or fallback if m is not set.
func (m Mode) Or(fallback Mode) Mode {
	if m == "" {
		return fallback
	}
	return m
}

// Table is a table of a destination: its name, the columns that identify a row, and all columns. A table without a
// key may have several equal rows. With Append and History, the key identifies a record, and each version of the
// record is a row.
//
// Columns contains the columns of the source's fields first, and penstock's own columns (`_penstock_*`) last. The
// metadata of an Arrow field says which field of the source the column holds: see [SourceKey].
type Table struct {
	Name    string
	Key     []string
	Columns *arrow.Schema
	Mode    Mode
}

// Stream is one endpoint of the platform and the table that it fills. All differences between endpoints are data in
// the catalogue, not code. Copies of a Stream share its slices and maps, so do not change them.
type Stream struct {
	Table // the catalogue sets Name and Key; a destination or a mapper sets Columns

	Name    string  // <module>.<resource>, as users write it
	Surface Surface // selects the base URL and the credential
	Module  string  // the part of Name before the dot
	Group   string  // title of the group of endpoints in the platform's documentation
	Method  string  // GET or POST for streams; any for writes
	Path    string  // path as documented, without the host; {name} stands for a path parameter
	Class   Class
	Media   string // media type of the files, for class file; "" for any
	Auth    Auth   // credential to send
	Scope   string // scope that an OAuth grant needs to read the stream; "" if the surface has no scopes

	Parent string  // stream whose records have the values of Params; "" if there is none
	Params []Param // all path parameters, and the required parameters of query and body

	// Records are the places where the records may be, the likeliest first. Each is a JSON pointer into the body,
	// such as /data/*/leads. A * stands for every element of an array or every value of an object. A place holds an
	// array of records, or an object of records whose keys are numbers. For a detail, singleton or report, it holds
	// the one record.
	Records []string

	// Context is a name, such as stage. If it is set, each record gets a member _context with a member of this name.
	// The value of this inner member describes what the last * in the pointer of Records has matched. If the * has
	// matched an object, such as a stage of a board, the value has the scalar members of this object. If it has matched
	// an entry of a map, the value is the entry's key.
	Context string

	// Twin is another stream with the same records and the same key. If a record is in only one of the two lists, the
	// other list is incomplete.
	Twin string

	Pagination Pagination // a hint; zero: probes determine it

	// Stated says who has stated a part of the stream: StatedConfigured or StatedImported. Its keys are path,
	// records, key, pagination, incremental, months and parent. A part without an entry is a hint from the catalogue.
	// penstock checks stated parts, but never replaces them.
	Stated map[string]string

	// RecordsKnown means that an earlier run found the records at the first place in Records. It is an error if the
	// records are at another place in this run, or if the list needs another way of paging.
	RecordsKnown bool
	Object       bool     // with RecordsKnown: the answer was one object, not a list
	Volatile     []string // top-level fields that change although the record does not; the row hash ignores them

	// RereadPasses is for child streams: one of every RereadPasses passes requests the stream for a parent even if the
	// parent's record has not changed. With the value 1, every pass requests the stream for all parents. With the value
	// 0, the caller decides.
	RereadPasses int

	// Window means that the list shows only some of the records, such as those of the current month. So a record that
	// is missing from the list may still exist.
	Window bool

	Incremental Incremental // how changes are requested; zero: every pass reads the whole list
	Months      Months      // parameters that select the month of the list
	Range       Range       // the part of the list that one pass requests

	// Types are declared column types, in the form that [ParseType] reads. The key is the column's path from the
	// record, with `__` between members. The path items__unit_price is the column unit_price of the child table
	// items. A declaration is a hint: a value that does not fit widens the column.
	Types map[string]string

	// Description says what the records are. Descriptions says what each column means; its keys are the paths of
	// columns, as in Types. Destinations store these texts as comments.
	Description  string
	Descriptions map[string]string

	Rules Rules // what happens to the records
	Log   bool  // record each change of a row in _penstock_changes

	MaxColumns int // greatest number of columns for the source's fields, over all tables of the stream; 0: [DefaultColumns]
	MaxTables  int // greatest number of child tables; 0: [DefaultTables]

	Enabled bool   // "*" selects the stream
	Reason  string // why "*" does not select the stream; "" if "*" selects it
}

// Readable reports whether a stream may request the endpoint. // Invariant 9
func (s Stream) Readable() bool { return s.Class.Readable() }

// DeclaredColumns returns the columns whose types are declared. Their names are the paths of [Stream].Types.
func (s Stream) DeclaredColumns() (*arrow.Schema, error) {
	var fields []arrow.Field
	for _, path := range slices.Sorted(maps.Keys(s.Types)) {
		t, err := ParseType(s.Types[path])
		if err != nil {
			return nil, fmt.Errorf("stream %s: column %s: %w", s.Name, path, err)
		}
		fields = append(fields, Field(path, t, ""))
	}
	return arrow.NewSchema(fields, nil), nil
}

// Default bounds of a stream.
const (
	DefaultColumns = 1500 // Postgres allows 1,600 columns, which include penstock's own columns and dropped columns
	DefaultTables  = 200
)

// Bounds returns the greatest numbers of columns and child tables for the source's fields. Fields beyond them are
// stored in [ColRest].
func (s Stream) Bounds() (columns, tables int) {
	return cmp.Or(s.MaxColumns, DefaultColumns), cmp.Or(s.MaxTables, DefaultTables)
}

// The values of Stream.Stated.
const (
	StatedConfigured = "configured" // the user, in pipelines.yaml
	StatedImported   = "imported"   // `penstock import`, in pipelines.yaml
)

// Auth is the credential that a stream's requests send.
type Auth string

// The kinds of credentials.
const (
	AuthBearer     Auth = ""           // the surface's own credential
	AuthNone       Auth = "none"       // public endpoint: no Authorization header
	AuthWhiteLabel Auth = "whitelabel" // server-to-server token, configured for the stream
)

// Param is a value that a request needs. If several parent records have the same values, they share one request. A
// parent record causes no request if it lacks a value that the path or the stream's key needs.
type Param struct {
	Name  string // name in the API
	In    string // path, query or body
	From  string // JSON pointer into the parent's record: /id; * stands for each element: /entries/*/id
	Value string // a constant, instead of From; From and Value are both empty only if the stream is not enabled
}

// Pagination is what is known in advance about a stream's pages. Probes compare it with the answers.
type Pagination struct {
	Type  string // none, page, offset, cursor, since_id, link, range; "" if unknown
	Page  string // request parameter of page number, offset or cursor; "" with type link: send all parameters of the link
	Size  string // request parameter of the page size; "" sends none
	Limit int    // page size to request; 0: the requests name no page size

	Zero  bool   // page numbers start at 0
	One   bool   // offsets start at 1
	Field string // for since_id: the member of the last record whose value is sent; "" for the record's key or id
	Query bool   // for a POST: parameters are sent in the query, not in the body
	Order string // query parameters that request a stable order, such as sort=id&direction=asc; "" for none
}

// SourceKey is a metadata key of Arrow fields. Its value says which field of the source the column holds: it is a JSON
// pointer into the record or, in child tables, into the nested object. For penstock's own columns, the value is "", or
// the key is missing.
const SourceKey = "penstock:source"

// DescriptionKey is the metadata key of the description of an Arrow field or of a table's schema.
const DescriptionKey = "penstock:description"

// TypeKey is a metadata key of Arrow fields. It distinguishes JSON text from plain text, because both are Arrow
// strings. The value for JSON text is "json".
const TypeKey = "penstock:type"

// Penstock's own columns. The first five are in every table. ColParent and ColIndex are in child tables. ColRoot is
// in child tables of child tables. ColOrdinal is only in batches and is never stored.
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

	ColOrdinal = "_penstock_ordinal" // number of the record within the pass, increasing (int64)
)

// Meaning returns the meaning of one of penstock's own columns, and "" for any other column.
func Meaning(column string) string {
	switch column {
	case ColSource:
		return "the source of the row; only in tables that sources share; the first column of every key"
	case ColSyncedAt:
		return "time of the commit that last wrote this row; each commit to the table has a later time than the one before"
	case ColRun:
		return "the run that wrote this row"
	case ColHash:
		return "hash of the record, by which a later run finds out whether it has changed"
	case ColDeletedAt:
		return "when the source was found to have deleted the record; null for a row that is not deleted"
	case ColVia:
		return "how the row came: poll, webhook or backfill"
	case ColParent:
		return "key of the row that this child row belongs to"
	case ColIndex:
		return "position in the parent's list, from 0"
	case ColRoot:
		return "key of the record; only in child tables of child tables"
	case ColRest:
		return "JSON of the record's members beyond max_columns and max_tables of the stream"
	case ColValidFrom:
		return "mode history: when this version was first seen"
	case ColValidTo:
		return "mode history: when the next version was first seen, or when the record was found to be gone; null for the current version"
	}
	return ""
}
