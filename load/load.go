// Package load defines the contract between the pipeline and a destination.
//
// Each kind of destination has a folder below this one and is listed in cmd/penstock. Its tests call loadtest.Run. A
// destination stores a stream's cursor beside the rows. Only [Tx.Commit] changes the cursor. In one durable step, it
// stores the new cursor and the rows that were read up to this cursor. // Invariant 2
package load

import (
	"context"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Destination stores tables. Its methods are safe for concurrent use; a transaction may be used by one goroutine at a
// time.
type Destination interface {
	// Cursor returns the committed cursor of k, or "" if there is none yet.
	Cursor(ctx context.Context, k state.Key) (state.Cursor, error)

	// Tables returns the table with the given name and its child tables, whose names begin with the name and "__". It
	// returns none before the first load. The metadata of a column names the source field that the column holds.
	Tables(ctx context.Context, name string) ([]schemas.Table, error)

	// Begin opens a transaction on the stream k. The parameter expected is the cursor that the caller has read. If the
	// stored cursor differs from it, Apply or Commit returns state.ErrMoved (wrapped). Until its first Apply, the
	// transaction holds no lock and no connection.
	Begin(ctx context.Context, k state.Key, expected state.Cursor, p Pass) (Tx, error)

	// StreamState returns the state of the stream's table, including the table's owner. If several sources share the
	// table, [StreamState].Empty concerns only the rows of k.Source.
	StreamState(ctx context.Context, k state.Key, table string) (StreamState, error)

	// Scan reads all committed rows of a table, including tombstones and earlier versions, and calls visit with batches
	// of them. The batches have the named columns in the given order, or all columns if the parameter columns is nil.
	// The types are those that Tables returns. A batch is valid until visit returns.
	//
	// If the table does not exist or is empty, Scan never calls visit. If the table was changed by hand, Scan returns
	// [ErrForeignChange] (wrapped).
	Scan(ctx context.Context, table string, columns []string, visit func(arrow.RecordBatch) error) error

	// Accept is for a table whose columns a user has changed by hand. Accept records that the present columns of the
	// table are correct, so that the table's stream can continue. It returns the changes that it recorded. A column
	// that was dropped is created again when its next value arrives. A column whose type was changed keeps the new
	// type. If penstock cannot write to the table as it is, Accept returns an error and records nothing.
	// Invariant 16
	Accept(ctx context.Context, table string) ([]Change, error)

	Close() error
}

// Pass describes the pass that a transaction belongs to.
type Pass struct {
	Run    string // id of the run in which the pass began; for a second pass in the same run, this id followed by "#2"; later passes have greater ids
	Source string // name of the source that is read; "" if the pass reads none
	Whole  bool   // this process makes all transactions of the pass
	Once   bool   // the pass has only this transaction, so nothing has to be kept for a later sweep
	Claim  Claim  // the table to write; the transaction fails with an [*OwnerError] if the table has another owner
	Log    bool   // also record in [RowChanges] which root rows are inserted, changed, deleted or revived

	// Hold has checks for the rows that a transaction inserts or changes in the table of Claim. If one of these rows
	// fails a check, Commit returns a [*CheckError] and keeps nothing. Only a [Checker] tests them, and only checks of
	// single rows are allowed: see [schemas.CheckKind].OfRows.
	Hold []schemas.Check

	// Now returns the current time, which the destination records. If Now is nil, the clock of this machine is used.
	Now func() time.Time
}

// Time returns the current time in UTC, truncated to microseconds.
func (p Pass) Time() time.Time {
	now := p.Now
	if now == nil {
		now = time.Now
	}
	return now().UTC().Truncate(time.Microsecond)
}

// Tx is a transaction. Readers see none of its effects before Commit. Rollback leaves no effects. After Commit or
// Rollback, the Tx must not be used again.
//
// The table's mode decides what happens to the stored row of a record when a new row with the same key is written:
//
//   - Merge: the new row replaces the old row, and its child rows replace the
//     old child rows. A sweep turns missing rows into tombstones.
//   - Replace: as Merge, but a sweep removes missing rows.
//   - Append: the new row is added, unless its hash equals that of the record's
//     last row. The last row is the row of the newest run. If that run has several
//     rows of the record, it is the row with the latest synced_at. A sweep finds
//     no missing rows.
//   - History: the current row, which has no valid_to, ends at the new row's
//     synced_at. The new row is valid from then on. The same holds for child
//     rows. A missing row ends, and becomes a tombstone. If all rows of a record
//     have ended and the record is written again, its new row counts as Revived.
//
// A pass adds at most one version of a record; in Append, at most one row. If the pass writes the record again with
// other content, the new content replaces that version's content, and valid_from stays. A version never ends before
// it begins, and never begins before the previous version has ended. If clocks disagree, the later time is used.
//
// All changes of a transaction get the time of its commit; see [CommitTime]. Each row that the transaction inserts,
// changes, ends or marks as deleted gets this time as [schemas.ColSyncedAt]; the value in the batch given to Write is
// ignored. Other rows keep their time, even if a lake writes them to another file. New versions begin, and old ones
// end, at the time of the commit. This time is also the [schemas.ColDeletedAt] of new tombstones.
//
// In a table without a key, rows with the same hash are equal, and only their number is compared. If the pass has more
// equal rows than the table, the additional rows are inserted; in History, only the table's current rows count. If the
// pass has fewer equal rows than the table, the mode decides what a sweep does with the surplus rows of the table:
// Merge and Replace remove them, History ends them, and Append keeps them.
type Tx interface {
	// Write adds the rows of b to t. Apply creates the table or widens its columns if the table cannot store these
	// rows. If two rows have the same key, the one with the higher [schemas.ColOrdinal] is kept. A row of a child table
	// belongs to the root row with the same ordinal, which must be written in the same Tx. Write retains b.
	Write(ctx context.Context, t schemas.Table, b arrow.RecordBatch) error

	// Apply merges the rows that were passed to Write since the last Apply. Rows whose key is new or whose hash
	// differs are written; the others stay unchanged. Apply may be called again after further calls of Write.
	Apply(ctx context.Context, s Sweep) (Outcome, error)

	// Commit applies the remaining rows. It makes the rows, the schema changes and the new cursor (next) durable in one
	// step. If the stored cursor has changed, Commit returns state.ErrMoved (wrapped) and keeps nothing. If rows fail a
	// check of [Pass].Hold, it returns a [*CheckError] (wrapped) and keeps nothing.
	// Invariants 1, 2, 13
	Commit(ctx context.Context, next state.Cursor) error

	// Rollback discards the transaction. After Commit it does nothing.
	Rollback() error
}

// Sweep makes Apply look for missing rows: rows of the table that no transaction of the pass has passed to Write. A
// sweep is done in the last Apply of a pass.
type Sweep struct {
	Table  string // root table; "" means no sweep
	Delete bool   // delete the missing rows as the table's mode says; otherwise only count them

	// List limits the number of missing rows whose keys are returned in [Outcome].Keys.
	List int
	// Keys, if not nil, holds the keys of the rows to delete, and no other rows are deleted. The batches have the key
	// columns, whose types may be narrower than the table's. The rows are deleted even if the pass has written them.
	// [Outcome].Missing is then the number of live rows with these keys. The caller must have requested each of these
	// records from the source. // Invariant 12
	Keys []arrow.RecordBatch
}

// Outcome reports what Apply did to the root table's rows. Written + Unchanged + Deduplicated is the number of rows
// that were passed to Write.
type Outcome struct {
	Written      int64 // new or changed rows; Inserted counts the new rows
	Inserted     int64
	Unchanged    int64 // rows whose key and hash already existed
	Deduplicated int64 // rows whose key the pass had already written; the later row is kept
	Revived      int64 // records among Written whose last row was a tombstone

	Alive   int64 // live rows before the sweep: rows that are not tombstones; in History, only current versions
	Missing int64 // live rows that are missing; see [Sweep]
	Known   bool  // the sweep knew which rows the pass has read; false after a resume, if that knowledge was lost
	Deleted int64 // rows that the sweep of this Apply marked as deleted, ended or removed

	Keys []arrow.RecordBatch // keys of missing rows, up to the sweep's List; the caller releases them
}

// TableChecker is implemented by destinations with settings that do not fit every table.
type TableChecker interface {
	// CheckTable returns an error if the destination's settings do not fit the columns of a table. The first write to a
	// new table returns the same error.
	CheckTable(t schemas.Table) error

	// PartitionColumn returns the column by which each new table is partitioned that has this column. It returns "" if
	// none is set.
	PartitionColumn() string
}

// Querier is implemented by destinations that support SQL queries.
type Querier interface {
	// Query runs one read-only statement and calls visit with batches of its result. If the result has no rows, Query
	// calls visit once, with an empty batch.
	Query(ctx context.Context, sql string, visit func(arrow.RecordBatch) error) error
}
