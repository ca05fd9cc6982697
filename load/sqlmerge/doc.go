// Package sqlmerge is the merge algorithm of destinations that are SQL databases.
//
// A [Store] is a destination over a [Backend]. It fits tables to the rows that arrive, compares keys and hashes, writes
// what is new or changed, and stores the cursor in the same transaction. At the end of a pass it sweeps: it finds the
// rows that the pass did not contain, and deletes them or marks them as deleted. If a table keeps rows that are no
// longer current, the view <table>_current shows the current rows. The backend supplies the dialect of SQL, the
// sessions, and a fast way to insert rows.
//
// A transaction ([Store.Begin], tx.go) collects rows until Apply. Then it fits tables (fit.go), merges the rows of
// tables with a key (merge.go, status.go) or without one (keyless.go), and sweeps the tables (sweep.go). The files
// seen.go and order.go keep track of the keys that a pass has read. The SQL of one table is in target.go and family.go.
//
// In all SQL of this package, t is a row of a table and s is a row of the status table or of another temporary table.
// The columns of temporary tables have short names, such as k0 for the first column of the key, and h for the hash.
package sqlmerge

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Dialect has the parts of SQL that differ between databases.
type Dialect interface {
	// Place returns the qualified name of a table of the destination. Temp returns the name of a temporary table.
	Place(table string) string
	Temp(table string) string

	// ViewPlace returns the name of a table in the query of a view.
	ViewPlace(table string) string

	// Literal quotes a text, and Timestamp a time.
	Literal(text string) string
	Timestamp(t time.Time) string

	// Micros returns an expression for the time expr, in microseconds since 1970.
	Micros(expr string) string

	// Type returns the SQL type of a column that holds values of the Arrow type t. Lattice returns the
	// Arrow type for an SQL type.
	Type(t arrow.DataType) string
	Lattice(f arrow.Field, sql string) (arrow.DataType, bool)

	// Cast returns an expression that casts expr from its type to a wider type. It casts lists only to JSON.
	Cast(expr string, from, to arrow.DataType) string

	// JSONText returns an expression for the JSON text of the value expr, which has type t. See the function JSONText.
	JSONText(expr string, t arrow.DataType) string

	// Spellings returns expressions for the texts with which child rows may refer to the value expr of a key. See the
	// function Spellings.
	Spellings(expr string, t arrow.DataType) []string

	// LastRows returns a query that selects, for each key, the last of the given rows. See the function LastRows.
	LastRows(r KeyedRows) string

	// Greatest returns an expression for the greatest of some values. The first value is never null. Nulls among the
	// other values are ignored.
	Greatest(first string, more ...string) string

	// Traits returns other properties in which databases differ.
	Traits() Traits
}

// Traits are properties in which databases differ.
type Traits struct {
	// PrimaryKeys says that each table with one row per key has a primary key. Then sessions are [Keyed].
	PrimaryKeys bool

	RowID      string // name of a column that identifies a row until the row is changed; "": there is none
	ExactNames bool   // names of tables and columns that differ only in case are different
	InnerFirst bool   // an inner join with a large table costs less than an outer join
	Bytewise   string // written after a text, to compare it by its bytes; "": the database always does so
	JSON       string // type of JSON columns in penstock's own tables; "": a text needs no cast to be stored there

	// ViewsBlock says that users cannot change a column by hand while a view reads it. A user may drop the view for
	// such a change. So a missing view is created again when the table changes.
	ViewsBlock bool
}

// Backend is a database.
type Backend interface {
	Dialect

	// Read calls f with a session that reads what is committed. It does nothing if the database does not exist yet.
	Read(ctx context.Context, f func(Reader) error) error

	// Write begins a transaction. Unless the backend is [Pooled], it first waits until all other transactions have
	// ended. It creates the database if it does not exist.
	Write(ctx context.Context) (Session, error)

	// Retry calls f, which runs one transaction that belongs to no pass, and calls it again after a transient error.
	Retry(ctx context.Context, f func() error) error

	// Exists reports whether the database exists.
	Exists() bool

	// Step is called before each named step of a commit. An error makes the step fail.
	Step(name string) error
}

// Reader reads from the database. It is used by one goroutine at a time.
type Reader interface {
	// Query passes each row of the result to the function row(). Whole numbers are int64. A sum of them may have another
	// type, which fmt.Sprint writes as digits. The function must not keep its argument.
	Query(ctx context.Context, query string, row func([]driver.Value) error) error

	// Stream passes the batches of the result, which have the given columns, to the function each(). A batch is valid
	// until that function returns.
	Stream(ctx context.Context, query string, columns *arrow.Schema, each func(arrow.RecordBatch) error) error

	// Objects returns the tables and views with the given names. It also returns their child tables: for crm_leads, all
	// tables and views whose names begin with crm_leads__. It may return other objects too. The changes that this
	// transaction has made may be missing in the result. The caller does not change the map.
	Objects(ctx context.Context, names []string) (map[string]*Object, error)
}

// Pooled is a [Backend] with several connections, which runs several transactions at the same time. A transaction may
// get any of the connections, so its temporary tables are dropped when it ends. The backend creates [load.OwnTables]
// before the first transaction. The sessions of the backend implement [PooledSession].
type Pooled interface {
	// Discard is called with a table that [PooledSession].Keep has made, when no transaction needs the table any more.
	// The backend drops the table later.
	Discard(table string)
}

// Session is a transaction that writes. Temporary tables that it creates stay after its commit, until the backend
// closes the connection on which transactions write; see [Store.LoseCarried]. If the backend is [Pooled], they are
// dropped when the transaction ends.
type Session interface {
	Reader

	Exec(ctx context.Context, query string) error
	// CreateTemp creates a temporary table in place of any earlier one of that name. The definition is a list of columns
	// in parentheses, or AS and a query.
	CreateTemp(ctx context.Context, name, definition string) error
	// Affect runs a statement and returns the number of rows that it changed.
	Affect(ctx context.Context, query string) (int64, error)
	// DeleteSome deletes up to limit rows of one of penstock's own tables for which the condition is true, and returns
	// how many it has deleted. It may return the place of the last of them. The next call begins after that place, and
	// need not pass the deleted rows again. The place "" is the beginning of the table.
	DeleteSome(ctx context.Context, table, condition, after string, limit int64) (n int64, last string, err error)

	// Stage passes a FROM item for staged rows to the function use(). The item has the named columns, with their types
	// in the given schema. It can be read only once, and only as a whole.
	Stage(ctx context.Context, s *load.Staged, columns *arrow.Schema, names []string, use func(from string) error) error

	// Insert appends staged rows to a table.
	Insert(ctx context.Context, i Insertion) error

	// Alter creates or alters a table.
	Alter(ctx context.Context, a Alteration) error

	// View creates or replaces a view. If v has no query, it drops the view.
	View(ctx context.Context, v View) error

	// Commit commits the transaction. Rollback discards it, and does nothing if the transaction has ended. The caller
	// calls either Commit or Rollback, and then End, which lets the next transaction begin.
	Commit(ctx context.Context) error
	Rollback() error
	End()
}

// PooledSession is a [Session] of a [Pooled] backend.
type PooledSession interface {
	// Position returns the values that the stream's row of [load.State] had when the session began. The session has
	// locked that row. The time of the last commit is in microseconds since 1970. Before the first commit, the sequence
	// is 0.
	Position() (cursor state.Cursor, sequence, moved int64)

	// Lock waits for the locks with the given names. The session holds the locks until the transaction ends, or until the
	// caller calls the function leave with release set to true. The caller always calls leave() before it calls Lock
	// again.
	Lock(ctx context.Context, names ...string) (leave func(release bool) error, err error)

	// Keep copies a temporary table with the columns k0, k1… for later transactions of the stream, and returns the name
	// of the copy. The caller calls Prepare before it joins many rows with such a copy.
	Keep(ctx context.Context, table string, columns int) (kept string, err error)
	Prepare(ctx context.Context, table string) error
}

// Keyed is a [Session] of a database with primary keys; see [Traits].PrimaryKeys.
type Keyed interface {
	// Try calls f. If f fails because a row with the same key exists, Try undoes the work of f and returns false.
	Try(ctx context.Context, f func() error) (bool, error)

	// Upsert inserts staged rows. A staged row replaces the table's row with the same key. If several staged rows have
	// the same key, Upsert writes the last of them. It returns an error if the number of written rows is not the
	// argument `rows`, unless that argument is negative.
	Upsert(ctx context.Context, i Insertion, rows int64) error

	// AddKey adds the primary key of a table; see [LateKey]. If a reader blocks the table, AddKey does nothing. If two
	// rows have the same key, or the table has another primary key, it returns a [*load.ForeignChange].
	AddKey(ctx context.Context, t schemas.Table) error
}

// View is a view to create. It may have a comment.
type View struct{ Name, Query, Comment string }

// Object is a table, a view or another kind of object with a name in the database.
type Object struct {
	View     bool
	Other    string            // what the object is, such as "a foreign table", if it is neither a table nor a view
	Columns  []string          // in their order; nil: the order does not matter
	Types    map[string]string // by column, as [Dialect].Type writes them
	Required []string          // columns that are NOT NULL and have no default
	Computed []string          // columns whose values the database computes
	Unique   []string          // unique keys over all rows, as [load.KeyName] writes them, with [Traits].PrimaryKeys
	Unsafe   []string          // reasons why it is unsafe to write to the table; only a [Session] finds them
	Hidden   bool              // the rows cannot be read; a statement that reads them fails
}

// isTable reports whether the object is a table.
func (o *Object) isTable() bool { return !o.View && o.Other == "" }

// Alteration is a table to create or to alter.
type Alteration struct {
	load.Plan
	Stream  string // the stream that writes the table
	Changed bool   // this transaction has deleted or updated rows of the table
}

// Insertion is staged rows to append to a table.
type Insertion struct {
	Table  schemas.Table
	Staged *load.Staged

	// Chosen is a query. Its column o has the ordinals of the rows to append. If Chosen is "", all rows are appended. In
	// mode History, the value of [schemas.ColValidFrom] comes from the query's column f if Valid is true, and otherwise
	// from the row's [schemas.ColSyncedAt].
	Chosen string
	Valid  bool
}
