// Package sqlmerge is the merge algorithm of destinations that are SQL databases.
//
// A [Store] is a destination over a [Backend]. It fits tables to the rows that arrive, compares keys and hashes, writes
// what is new or changed, sweeps, and stores the cursor in the same transaction. If a table keeps rows that are no
// longer current, the view <table>_current shows the current rows. The backend supplies the dialect of SQL, its
// sessions, and the fast way to bring rows in.
//
// In all SQL of this package, t is a row of a table and s is a row of the status table or of another temporary table.
// In temporary tables, columns have short names that no source column can hide.
package sqlmerge

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Dialect is how a database writes what SQL databases write in different ways.
type Dialect interface {
	// Place returns the qualified name of a table of the destination, and Temp that of a temporary table.
	Place(table string) string
	Temp(table string) string

	// ViewPlace returns the name of a table in the query of a view.
	ViewPlace(table string) string

	// Literal quotes a text, and Timestamp a time.
	Literal(text string) string
	Timestamp(t time.Time) string

	// Micros returns an expression for the microseconds from 1970 to the time expr.
	Micros(expr string) string

	// Type returns the type of a column that holds values of t. Lattice is its inverse.
	Type(t arrow.DataType) string
	Lattice(f arrow.Field, sql string) (arrow.DataType, bool)

	// Cast returns an expression that casts expr, of type from, to the wider type to. It casts lists only to JSON.
	Cast(expr string, from, to arrow.DataType) string

	// LooksBare returns the condition that the text expr looks like a number or a boolean in JSON.
	LooksBare(expr string) string

	// Latest returns an expression for the value in the row of a group that has the greatest value of by. The query
	// also selects max(by).
	Latest(value, by string) string

	// InnerFirst reports whether an inner join with a large table costs less than an outer join.
	InnerFirst() bool

	// Greatest returns an expression for the greatest of some values. The first is never null, and nulls are ignored.
	Greatest(first string, more ...string) string
}

// Backend is a database.
type Backend interface {
	Dialect

	// Read calls f with a session that reads what is committed. It does nothing if the database does not exist yet.
	Read(ctx context.Context, f func(Reader) error) error

	// Write begins a transaction. It waits until all other transactions have ended, and creates the database if that
	// does not exist.
	Write(ctx context.Context) (Session, error)

	// Exists reports whether the database exists.
	Exists() bool

	// Step is called before each named step of a commit. An error makes the step fail.
	Step(name string) error
}

// Reader reads from the database. It is used by one goroutine at a time.
type Reader interface {
	// Query calls row with each row of the result. Whole numbers are int64, and so are sums of them. The function row
	// must not keep its argument.
	Query(ctx context.Context, query string, row func([]driver.Value) error) error

	// Stream calls each with batches of the result, which have the given columns. A batch is valid until each returns.
	Stream(ctx context.Context, query string, columns *arrow.Schema, each func(arrow.RecordBatch) error) error

	// Objects returns the tables and views with the given names, and those whose names begin with one of them and "__".
	// It may return others too. It need not show what this transaction has changed. The caller does not change the map.
	Objects(ctx context.Context, names []string) (map[string]*Object, error)
}

// Session is a transaction that writes. Temporary tables that it creates stay after its commit until the backend
// loses them; see [Store.LoseCarried].
type Session interface {
	Reader

	Exec(ctx context.Context, query string) error
	// Affect runs a statement and returns the number of rows that it changed.
	Affect(ctx context.Context, query string) (int64, error)

	// Stage calls use with a FROM item for the named columns of staged rows, with the types that they have in columns.
	// The item can be read once, and only as a whole.
	Stage(ctx context.Context, s *load.Staged, columns *arrow.Schema, names []string, use func(from string) error) error

	// Insert appends staged rows to a table.
	Insert(ctx context.Context, i Insertion) error

	// Alter creates or alters a table.
	Alter(ctx context.Context, a Alteration) error

	// View creates or replaces a view. If query is "", it drops the view.
	View(ctx context.Context, name, query string) error

	// Commit commits. Rollback discards the transaction, and does nothing if there is none. One of them is called, then
	// End, which lets the next transaction begin.
	Commit(ctx context.Context) error
	Rollback() error
	End()
}

// Object is a table or a view in the database.
type Object struct {
	View     bool
	Types    map[string]string // by column, as [Dialect].Type writes them
	Required []string          // columns that are NOT NULL and have no default
	Computed []string          // columns whose values the database computes
}

// Alteration is a table to create or to alter.
type Alteration struct {
	load.Plan
	Stream  string // that writes the table
	Changed bool   // this transaction has deleted or updated rows of the table
}

// Insertion is staged rows to append to a table.
type Insertion struct {
	Table  schemas.Table
	Staged *load.Staged

	// Chosen is a query for the ordinals o of the rows to append, or "" for all rows. In mode History, [schemas.ColValidFrom]
	// is the query's column f if Valid is set, otherwise the row's [schemas.ColSyncedAt].
	Chosen string
	Valid  bool
}
