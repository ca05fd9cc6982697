package load

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// Prefix starts the names of penstock's own tables and columns.
const Prefix = "_penstock_"

// IsInternal reports whether the table is one of penstock's own. These tables do not have the columns that penstock
// adds to the tables of streams. If such a table has a key, a new row replaces the row with the same key; otherwise
// rows are appended. An [Outcome] does not count these rows.
func IsInternal(table string) bool { return strings.HasPrefix(table, Prefix) }

// Penstock's own tables, the same in every destination. The destination itself writes State and Changes. The caller
// writes the others through [Tx].Write.
var (
	// State holds the cursor of each stream. A commit stores the cursor together with the rows that were read up to it.
	State = own("state", []string{"pipeline", "stream"},
		text("pipeline"), text("stream"), text("cursor"), integer("sequence"), instant("updated_at"))

	// Changes holds one row for each change of a table's columns, such as a new or a wider column, with the time and the
	// reason. The rows show which columns penstock has created, and which field of the source fills each column.
	Changes = own("schema", nil,
		instant("at"), text("run"), text("table"), text("column"), text("source"),
		text("action"), text("from_type"), text("to_type"), text("reason"))

	// Runs holds one row for each run of a pipeline.
	Runs = own("runs", []string{"run"},
		text("run"), text("pipeline"), instant("started_at"), instant("ended_at"),
		text("status"), document("counts"), text("error"))

	// Certificates holds one row for each pass of a stream: its verdict, the facts behind the verdict (witnesses), and
	// counts. Each of the fetched records counts once: as written, unchanged, deduplicated or rejected. A record is
	// deduplicated if the pass received its key more than once. The column `distinct` is the number of different
	// records. The column `deleted` is the number of rows that were marked as deleted.
	Certificates = own("certificates", nil,
		text("run"), text("pipeline"), text("stream"), instant("at"), text("verdict"), document("witnesses"),
		integer("fetched"), integer("distinct"), integer("written"), integer("unchanged"),
		integer("deduplicated"), integer("rejected"), integer("deleted"), integer("pages"), integer("requests"))

	// Rejects holds one row for each record or value that no column can hold or that a contract keeps out.
	//
	// The column `record_id` is the record's key as JSON, or a hash of the record if it has no usable key. If a single
	// value is rejected, the column `pointer` has the JSON pointer to the value. If the whole record is rejected,
	// `pointer` is empty and the column `record` is true. The column `raw` has the original value. The column `wanted`
	// has the type that was expected. The column `stage` names the step that refused the value: extract, transform,
	// contract, load or webhook.
	//
	// If a later pass finds the same reject again, its row replaces the earlier row. So the columns `run`, `pass` and
	// `ordinal` describe the last pass that found the reject. The column `ordinal` is the number of the record in that
	// pass. The column `pass` is 1, or 2 for a second reading in the same run. The column `resolved_at` has the time
	// when a later pass stored the record or value. The column `accepted_at` has the time when a person accepted the
	// loss.
	Rejects = own("rejects", []string{"pipeline", "stream", "record_id", "pointer"},
		text("run"), text("pipeline"), text("stream"), integer("pass"), integer("ordinal"), text("pointer"), instant("at"),
		text("key"), text("wanted"), text("raw"), text("reason"), flag("record"), instant("resolved_at"),
		text("record_id"), text("stage"), instant("accepted_at"))

	// RowChanges holds one row for each row that a run inserted, updated or deleted in the table of a stream, if the
	// configuration of the pipeline or of the stream has the setting `changes: true`. Changes of child tables are not
	// included. The column `action` is insert, update, delete, or revive for a deleted record that is back. The column
	// `key` is a JSON array of the key's values. The column `before` has the previous row as a JSON object, and the
	// column `after` has the new row. Both leave out penstock's own columns.
	RowChanges = own("changes", nil,
		text("run"), text("pipeline"), text("stream"), text("table"), instant("at"),
		text("action"), text("key"), document("before"), document("after"))

	// Checks holds one row for each check of a stream in each run. The column `check_name` is the name of the check, and
	// `kind` says what it tests. The column `result` is ok, failed, held (the rows were not committed), or error (the
	// check could not run). The column `failing` is the number of rows that failed, and `examples` has the keys of some
	// of them as a JSON array. The column `row_count` is the number of current rows, if the check has counted them. The
	// column `detail` says what was found, or why the check could not run. The column `took_ms` is how long the check
	// took, in milliseconds.
	Checks = own("checks", nil,
		text("run"), text("pipeline"), text("stream"), text("table"), text("check_name"), text("kind"), text("on_fail"),
		instant("at"), text("result"), integer("failing"), integer("row_count"), document("examples"), text("detail"), integer("took_ms"))

	// Conventions holds what was learned or configured about the endpoint of each stream, and the evidence, as JSON.
	Conventions = own("conventions", []string{"pipeline", "stream"},
		text("pipeline"), text("stream"), text("run"), instant("at"), document("convention"))

	// Parents holds one row for each parent record for which a child stream was read. The column `parent` has the
	// values that were taken from the parent record for the request, as JSON. The column `print` is a fingerprint of
	// the parent record at the time of the request. While the fingerprint stays the same, the next runs need not read
	// the child stream for this parent again. The column `run` is the id of the pass.
	Parents = own("parents", []string{"pipeline", "stream", "parent"},
		text("pipeline"), text("stream"), text("parent"), integer("print"), text("run"), instant("at"))

	// Events holds each verified webhook event of a source once, as received. The column `streams` lists the streams
	// to which the event belongs, as a JSON array. The column `state` has the first of these words that applies:
	//   - unparsed: the body is not a JSON object
	//   - unmapped: no stream that is read has events of this type
	//   - conflict: another event with the same id has a different body
	//   - mapped: any other event
	//
	// A body that is not text is stored in base64, and the column `encoding` is then base64.
	Events = own("events", nil,
		text("source"), integer("ordinal"), text("id"), text("type"), instant("received_at"), text("scheme"),
		text("state"), document("streams"), text("body"), text("encoding"))
)

// OwnTables returns penstock's own tables with the columns that they have when they are created.
func OwnTables() []schemas.Table {
	return []schemas.Table{State, Changes, Runs, Certificates, Rejects, RowChanges, Checks, Conventions, Parents, Events}
}

func own(name string, key []string, columns ...arrow.Field) schemas.Table {
	return schemas.Table{Name: Prefix + name, Key: key, Columns: arrow.NewSchema(columns, nil)}
}

func text(name string) arrow.Field     { return schemas.Field(name, schemas.Text, "") }
func integer(name string) arrow.Field  { return schemas.Field(name, schemas.Int64, "") }
func instant(name string) arrow.Field  { return schemas.Field(name, schemas.Timestamp, "") }
func document(name string) arrow.Field { return schemas.Field(name, schemas.JSON, "") }
func flag(name string) arrow.Field     { return schemas.Field(name, schemas.Bool, "") }
