// Package load is the contract between the pipeline and a place tables land in.
//
// A destination is one folder beside this one, one line in cmd/penstock's table
// and one call of loadtest.Run. It keeps data and position together: the cursor
// of a stream lives in the destination and moves only in [Tx.Commit], in the
// same durable step as the rows it covers. // Invariant 2
package load

import (
	"context"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Destination is a place tables land in. Its methods may be called from any
// number of goroutines; one transaction belongs to one goroutine at a time.
type Destination interface {
	// Cursor is the committed cursor of k; "" where there is none yet.
	Cursor(ctx context.Context, k state.Key) (state.Cursor, error)

	// Tables are the tables named name and name__*, as they stand, their
	// fields' metadata saying which field of the source they hold; none where
	// nothing was loaded yet. A mapper that starts from them writes values
	// in the types the tables already have.
	Tables(ctx context.Context, name string) ([]schemas.Table, error)

	// Begin opens a transaction on the stream k, to be committed only if the
	// stored cursor is then still from. It may hold nothing until Apply.
	Begin(ctx context.Context, k state.Key, from state.Cursor, p Pass) (Tx, error)

	// Standing is what there is of the table of the stream k, and whose it is. Of a
	// table that sources share it looks at the rows of k's.
	Standing(ctx context.Context, k state.Key, table string) (StreamState, error)

	// Scan hands every committed row of table to each, tombstones and earlier
	// versions included: the named columns in their order, all where columns is
	// nil, in the types of [schemas.Table]. No call where there is no such
	// table or it has no rows, and [ErrForeignChange] (wrapped) where somebody
	// has changed it by hand. A batch is the callee's until it returns.
	Scan(ctx context.Context, table string, columns []string, each func(arrow.RecordBatch) error) error

	// Accept takes a table that was changed by hand for what it now is, so that
	// its stream goes on, and returns what it recorded: a column that is gone is
	// forgotten (and made anew by its next value), one with another type that
	// penstock knows keeps it. It is an error, and nothing is recorded, where
	// the table cannot be written to as it is. // Invariant 16
	Accept(ctx context.Context, table string) ([]Change, error)

	Close() error
}

// Pass says which reading of a stream a transaction belongs to.
type Pass struct {
	Run   string // id of the pass: of the run it began in, with #2 for a second one there; later passes have greater ids
	Whole bool   // this process has made every transaction of the pass since its beginning
	Once  bool   // the transaction is all of the pass: no later one of it sweeps
	Claim Claim  // on the stream's table; a transaction fails with an [*OwnerError] where that is another's
	Log   bool   // root rows that are inserted, changed, deleted or revived are written to [RowChanges] as well

	// Now is the time of day that the destination's own notes bear, as what it is
	// handed in does: when a position, a table or a reject became what it is. nil: this
	// machine's.
	Now func() time.Time
}

// Time is the time of day now, in UTC and whole microseconds.
func (p Pass) Time() time.Time {
	now := p.Now
	if now == nil {
		now = time.Now
	}
	return now().UTC().Truncate(time.Microsecond)
}

// Tx is one commit in the making. Nothing written is seen by anyone before
// Commit, nothing remains after Rollback, and after either the Tx is used up.
//
// What becomes of a record's row, its key says which, when another is written
// is the mode of the table:
//
//   - Merge: the new row takes the place of the old, and its children that of the
//     old one's. A sweep puts a tombstone on what is missing.
//   - Replace: the same, but a sweep removes what is missing.
//   - Append: the new row is added, unless its hash is that of the record's last
//     row: the one of the last run, and of these the one synced last. Nothing
//     is ever missing.
//   - History: the current row, which has no valid_to, ends when the new one was
//     synced, which is valid from then on; so do the children. What is missing
//     ends, with a tombstone. A record whose rows have all ended gets a new
//     one, which counts as Revived.
//
// A pass leaves one version of a record: where a later transaction of it carries
// the key again with other content, the version before is replaced in place and
// the new one is valid from when that was. No version ends before it begins, nor
// begins before the one before it has ended: where clocks say so, the later time
// counts.
//
// All that a transaction does to rows has one time, that of its commit, see
// [After]. Every row that it inserts, changes, ends or marks as deleted has that
// time as [schemas.ColSyncedAt], whatever Write brought; rows that it leaves as
// they are, or moves to other files, keep theirs. Versions begin and end at that
// time, and tombstones have it.
//
// Rows without a key are alike if their hashes are, and only their number counts:
// what the pass carries beyond the rows there (in History: the current ones) is
// added. A sweep removes rows beyond what the pass carried; in History it ends
// them, in Append it leaves them.
type Tx interface {
	// Write adds the rows of b to t, creating or widening the table to fit at
	// Apply. Rows carry [schemas.ColOrdinal]: of two rows with one key the
	// higher ordinal stands. Rows of a child table belong to the parent row
	// with their ordinal and are written in the same Tx. Write retains b.
	Write(ctx context.Context, t schemas.Table, b arrow.RecordBatch) error

	// Apply merges what was written since the last Apply: rows whose key is
	// new or whose hash differs are written, the others left alone. It may be
	// called again, for rows which depend on the outcome of the first.
	Apply(ctx context.Context, s Sweep) (Outcome, error)

	// Commit applies what is left and makes rows, schema changes and the
	// cursor next durable in one step; or it returns state.ErrMoved (wrapped)
	// and nothing is kept. // Invariants 1, 2, 13
	Commit(ctx context.Context, next state.Cursor) error

	// Rollback gives everything up. After Commit it does nothing.
	Rollback() error
}

// Sweep asks Apply to look, once the last rows of a pass are written, for rows
// of a table which the pass did not carry.
type Sweep struct {
	Table  string // root table; "" looks for nothing
	Delete bool   // delete them, as the table's mode does; else only count them

	// List asks for the keys of up to so many missing rows as [Outcome].Keys.
	List int
	// Keys, where it is not nil, are the only rows to delete: batches of the key
	// columns, whose types may be narrower than the table's. They are deleted
	// whether the pass carried them or not, and those of them that are alive
	// are what is Missing. Somebody has asked the source for each of them.
	// Invariant 12
	Keys []arrow.RecordBatch
}

// Outcome is what Apply did to the root table's rows.
// Written + Unchanged + Deduplicated is the number of rows that were handed in.
type Outcome struct {
	Written      int64 // new or changed, of these Inserted are new
	Inserted     int64
	Unchanged    int64 // key and hash were there already
	Deduplicated int64 // the pass had carried the key before; the later row stands
	Revived      int64 // of Written: rows that had been tombstoned

	Alive   int64 // after a sweep: rows of the table that stand, before it deleted any: without a tombstone, in History the current ones
	Missing int64 // after a sweep: of these, rows the pass did not carry
	Known   bool  // the sweep could tell; false after a resume which lost what the pass had carried
	Deleted int64 // tombstoned, ended or removed by this Apply

	Keys []arrow.RecordBatch // where the sweep asked for a List; the caller releases them
}

// Querier is implemented by destinations that can be asked in SQL.
type Querier interface {
	// Query runs one read-only statement and hands its result to each, in
	// batches, the first of which comes even if there are no rows.
	Query(ctx context.Context, sql string, each func(arrow.RecordBatch) error) error
}
