package load

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// Prefix starts the names of penstock's own tables and columns.
const Prefix = "_penstock_"

// IsInternal reports whether the table is one of penstock's own. These tables have no bookkeeping columns. If such a
// table has a key, a new row replaces the row with the same key; otherwise rows are appended. An [Outcome] does not
// count these rows.
func IsInternal(table string) bool { return strings.HasPrefix(table, Prefix) }

// Penstock's own tables, the same in every destination. The destination itself writes State and Changes. The caller
// writes the others through [Tx].Write.
var (
	// State holds the cursor of each stream. A commit stores the cursor together with the rows that it covers.
	State = own("state", []string{"pipeline", "stream"},
		text("pipeline"), text("stream"), text("cursor"), integer("sequence"), instant("updated_at"))

	// Changes holds every change made to a table, with time and reason. Its rows show which columns penstock has
	// created, and from which field of the source each column is filled.
	Changes = own("schema", nil,
		instant("at"), text("run"), text("table"), text("column"), text("source"),
		text("action"), text("from_type"), text("to_type"), text("reason"))

	// Runs holds one row for each run of a pipeline.
	Runs = own("runs", []string{"run"},
		text("run"), text("pipeline"), instant("started_at"), instant("ended_at"),
		text("status"), document("counts"), text("error"))

	// Certificates holds one row for each pass of a stream: its verdict, the facts behind the verdict (column
	// witnesses), and numbers of records, pages and requests.
	Certificates = own("certificates", nil,
		text("run"), text("pipeline"), text("stream"), instant("at"), text("verdict"), document("witnesses"),
		integer("fetched"), integer("distinct"), integer("written"), integer("unchanged"),
		integer("deduplicated"), integer("rejected"), integer("deleted"), integer("pages"), integer("requests"))

	// Rejects holds one row for each record or value that no column can hold or that a contract excludes. The column
	// record_id is the record's key as JSON, or a hash of the record if it has no usable key. The column stage names the
	// step that rejected the record or value.
	//
	// If a later pass finds the same reject, it replaces the row. So run, pass and ordinal belong to the last pass that
	// found the reject; pass is 1, or 2 for a second reading in the same run. The column resolved_at is the time when a
	// later pass stored the record or value. The column accepted_at is the time when a person accepted the loss.
	Rejects = own("rejects", []string{"pipeline", "stream", "record_id", "pointer"},
		text("run"), text("pipeline"), text("stream"), integer("pass"), integer("ordinal"), text("pointer"), instant("at"),
		text("key"), text("wanted"), text("raw"), text("reason"), flag("record"), instant("resolved_at"),
		text("record_id"), text("stage"), instant("accepted_at"))

	// RowChanges holds the changes that runs made to rows of root tables, for pipelines and streams with changes: true.
	// The column action is insert, update, delete or revive. The column key is a JSON array of the key's values. The
	// columns before and after have the row's columns as a JSON object, without penstock's own columns.
	RowChanges = own("changes", nil,
		text("run"), text("pipeline"), text("stream"), text("table"), instant("at"),
		text("action"), text("key"), document("before"), document("after"))

	// Conventions holds the convention of each stream: what was learned or configured about its endpoint, and the
	// evidence, as JSON.
	Conventions = own("conventions", []string{"pipeline", "stream"},
		text("pipeline"), text("stream"), text("run"), instant("at"), document("convention"))

	// Parents holds the parent records for which each child stream was read. The column parent has the values that were
	// taken from the parent record, as JSON. The column print is a fingerprint of the record as it was read. The column
	// run is the id of the pass. If a row has no fingerprint, the next pass requests the children of that parent again.
	Parents = own("parents", []string{"pipeline", "stream", "parent"},
		text("pipeline"), text("stream"), text("parent"), integer("print"), text("run"), instant("at"))

	// Events holds each verified webhook event of a source once, as received. The column streams lists the streams to which
	// the event belongs, as a JSON array. The column state is one of these, the first that applies:
	//   - unparsed: the body is not a JSON object
	//   - unmapped: no stream that is read has events of this type
	//   - conflict: another event with the same id has a different body
	//   - mapped: any other event
	//
	// A body that is not text is stored in base64; the column encoding then says so.
	Events = own("events", nil,
		text("source"), integer("ordinal"), text("id"), text("type"), instant("received_at"), text("scheme"),
		text("state"), document("streams"), text("body"), text("encoding"))
)

// OwnTables returns penstock's own tables with the columns they are created with.
func OwnTables() []schemas.Table {
	return []schemas.Table{State, Changes, Runs, Certificates, Rejects, RowChanges, Conventions, Parents, Events}
}

func own(name string, key []string, columns ...arrow.Field) schemas.Table {
	return schemas.Table{Name: Prefix + name, Key: key, Columns: arrow.NewSchema(columns, nil)}
}

func text(name string) arrow.Field     { return schemas.Field(name, schemas.Text, "") }
func integer(name string) arrow.Field  { return schemas.Field(name, schemas.Int64, "") }
func instant(name string) arrow.Field  { return schemas.Field(name, schemas.Timestamp, "") }
func document(name string) arrow.Field { return schemas.Field(name, schemas.JSON, "") }
func flag(name string) arrow.Field     { return schemas.Field(name, schemas.Bool, "") }
