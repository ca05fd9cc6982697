// Package load defines the contract between the pipeline and a destination.
//
// A destination is one folder beside this one, one line in cmd/penstock's table and one call of loadtest.Run. It
// keeps data and position together: a stream's cursor is stored in the destination and changes only in [Tx.Commit],
// in the same durable step as the rows it covers. // Invariant 2
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

	// Tables returns the tables named name and name__*, or none before the first load. The metadata of a field names
	// the source field that it holds. A mapper that starts from these tables writes values in the types that the
	// tables already have.
	Tables(ctx context.Context, name string) ([]schemas.Table, error)

	// Begin opens a transaction on the stream k. Commit succeeds only if the stored cursor is still from. The
	// transaction may hold no resources before Apply.
	Begin(ctx context.Context, k state.Key, from state.Cursor, p Pass) (Tx, error)

	// Standing returns the state of the table of the stream k, and its owner. In a shared table it considers only the
	// rows of k's source.
	Standing(ctx context.Context, k state.Key, table string) (StreamState, error)

	// Scan calls each with all committed rows of table, including tombstones and earlier versions. The batches have
	// the named columns in that order, or all columns if columns is nil, in the types of [schemas.Table]. Scan does
	// not call each if the table does not exist or is empty. It returns [ErrForeignChange] (wrapped) if the table was
	// changed by hand. A batch is valid until each returns.
	Scan(ctx context.Context, table string, columns []string, each func(arrow.RecordBatch) error) error

	// Accept accepts a table that was changed by hand as it is now, so that its stream can continue, and returns the
	// changes that it recorded. It forgets a column that is gone; the next value creates it again. A column with
	// another type that penstock knows keeps that type. If penstock cannot write to the table as it is, Accept
	// returns an error and records nothing. // Invariant 16
	Accept(ctx context.Context, table string) ([]Change, error)

	Close() error
}

// Pass describes the pass that a transaction belongs to.
type Pass struct {
	Run   string // id of the pass: the id of the run it began in, with #2 for a second pass in that run; later passes have greater ids
	Whole bool   // this process has made every transaction of the pass
	Once  bool   // the transaction is the whole pass: no later one of it sweeps
	Claim Claim  // on the stream's table; a transaction fails with an [*OwnerError] if the table belongs to another owner
	Log   bool   // also write root rows that are inserted, changed, deleted or revived to [RowChanges]

	// Now is the clock for the times that the destination records: the change of a position, a table or a reject.
	// Times in the given rows come from the same clock. nil means this machine's clock.
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

// Tx is a transaction. Readers see nothing of it before Commit, Rollback leaves nothing behind, and after either one
// the Tx must not be used again.
//
// The table's mode decides what happens to a record's row when another row with its key is written:
//
//   - Merge: the new row replaces the old one, and its child rows replace the
//     old child rows. A sweep puts a tombstone on missing rows.
//   - Replace: the same, but a sweep removes missing rows.
//   - Append: the new row is added, unless its hash equals that of the record's
//     last row: the row of the last run, and among several the one synced last.
//     No row is ever missing.
//   - History: the current row, which has no valid_to, ends at the new row's
//     synced_at, and the new row is valid from then on. The same holds for child
//     rows. A missing row ends, and gets a tombstone. A record whose rows have
//     all ended gets a new row, which counts as Revived.
//
// A pass leaves one version of a record. If a later transaction of the pass carries the key again with other content,
// the new version replaces the previous one in place and keeps its valid_from. No version ends before it begins, or
// begins before the previous one has ended; if the clocks disagree, the later time is used.
//
// All changes of a transaction have one time, that of its commit; see [After]. Each row that the transaction inserts,
// changes, ends or marks as deleted gets that time as [schemas.ColSyncedAt], whatever Write passed. Rows that it
// leaves unchanged, or only moves to other files, keep theirs. Versions begin and end at that time, and tombstones
// carry it.
//
// Rows without a key are equal if their hashes are, and only their number counts. Rows of the pass beyond those that
// exist (in History: beyond the current ones) are added. A sweep removes rows beyond those that the pass carried; in
// History it ends them, in Append it leaves them.
type Tx interface {
	// Write adds the rows of b to t. Apply then creates or widens the table to fit. Rows have [schemas.ColOrdinal]:
	// of two rows with one key, the one with the higher ordinal wins. Rows of a child table belong to the parent row
	// with their ordinal, and must be written in the same Tx. Write retains b.
	Write(ctx context.Context, t schemas.Table, b arrow.RecordBatch) error

	// Apply merges what was written since the last Apply: it writes rows whose key is new or whose hash differs, and
	// leaves the others unchanged. It may be called again, for rows that depend on the outcome of the first call.
	Apply(ctx context.Context, s Sweep) (Outcome, error)

	// Commit applies the remaining rows and makes rows, schema changes and the cursor next durable in one step. If
	// the stored cursor has changed it returns state.ErrMoved (wrapped) and keeps nothing. // Invariants 1, 2, 13
	Commit(ctx context.Context, next state.Cursor) error

	// Rollback discards the transaction. After Commit it does nothing.
	Rollback() error
}

// Sweep makes Apply look for rows of a table that the pass did not carry, after the last rows of the pass are
// written.
type Sweep struct {
	Table  string // root table; "" means no sweep
	Delete bool   // delete the missing rows as the table's mode says; otherwise only count them

	// List is the greatest number of keys of missing rows to return in [Outcome].Keys.
	List int
	// Keys, if not nil, are the only rows to delete: batches of the key columns, whose types may be narrower than the
	// table's. They are deleted even if the pass carried them. Missing then counts those of them that are alive. The
	// caller has requested each of them from the source. // Invariant 12
	Keys []arrow.RecordBatch
}

// Outcome reports what Apply did to the root table's rows. Written + Unchanged + Deduplicated is the number of rows
// that were passed to Write.
type Outcome struct {
	Written      int64 // new or changed; Inserted counts the new ones
	Inserted     int64
	Unchanged    int64 // key and hash already existed
	Deduplicated int64 // the pass had already carried the key; the later row wins
	Revived      int64 // of Written: rows that had a tombstone

	Alive   int64 // after a sweep: live rows of the table before the sweep deleted any: without a tombstone, in History the current ones
	Missing int64 // after a sweep: live rows that the pass did not carry
	Known   bool  // the sweep could decide; false after a resume that lost the record of what the pass had carried
	Deleted int64 // rows that this Apply marked as deleted, ended or removed

	Keys []arrow.RecordBatch // keys of missing rows, up to the sweep's List; the caller releases them
}

// Querier is implemented by destinations that support SQL queries.
type Querier interface {
	// Query runs one read-only statement and calls each with its result in batches. The first batch comes even if
	// there are no rows.
	Query(ctx context.Context, sql string, each func(arrow.RecordBatch) error) error
}
