// Package iceberg lands tables in Apache Iceberg, for any engine that reads it.
//
// An Iceberg table is Parquet files and a list of them, and so a destination here
// is a lake of package parquet whose commits an Iceberg catalog holds: the tables
// of a namespace in a SQL catalog, as Iceberg's own JDBC catalog keeps it, in a
// SQLite file or in Postgres. Rows that change are deleted and appended by
// replacing their files (copy on write), in one snapshot of each table.
//
// # What is one commit
//
// All tables of a stream move together: the metadata of every table that a commit
// changes is written beside the old, and then all pointers to it are swapped in
// one transaction of the catalog's database, each only where it still is what the
// commit was made from. Readers find all of a commit or nothing. // Invariants 1, 7
//
// The cursor stands in the summaries of the snapshots (penstock.cursor), of each
// table that the commit has changed, and so does what else people may want to know
// of it. What counts is the one of _penstock_state__<stream>, which every commit
// changes: whoever would commit after another finds its pointer moved, and writes
// nothing. // Invariants 2, 13
//
// # What is in the catalog
//
// Every table is called as penstock calls it; penstock's own tables are those of a
// stream each, and have its name behind theirs (_penstock_rejects__<stream>).
// Columns have numbers, in the catalog and in the files: one that is added, or a
// decimal that gets more digits, leaves all files as they are. A column that is
// widened in a way that Iceberg does not know has a new number, and its rows are
// written again. Who else writes to these tables stops
// their stream with a diff. // Invariant 16
//
// Of each file the least and the greatest value of its columns are told, and how
// many are null, so that engines pass over those in which they look for nothing.
//
// Small files become larger ones as commits go. Snapshots stay as long as
// generations of a lake do ([parquet.Options].Keep and KeepFor), and what only
// they named is removed by the first commit of a run.
//
// # Sources that share tables
//
// A table that several sources share is one in the catalog, divided by
// _penstock_source, its first column, beside the dates it may be divided by. Each
// source has its own line of commits: the files of its rows lie in a folder of
// its own, a manifest of penstock's tells which they are, and a property of the
// head table (penstock.source.<name>) names the last of these, in the same swap of
// pointers as the rows and the snapshot that tells the cursor. A commit that finds
// the pointers moved by another source is made again of what the tables have
// become. It changes no file, and no entry of a manifest of Iceberg's, but of its
// own source; where that source itself has moved, it is refused. // Invariants 2, 13
//
// Columns are those of all sources together, and their numbers are hashes of their
// names and types, so that two who find a new column at once mean the same one.
// Where a commit brings a type that the table's column cannot take, its rows and
// those of all other sources are written in one that both fit in, as commits of
// each in one swap: no cursor moves, and who has begun a transaction goes on.
//
// What is written beside the rows (metadata, lists, manifests of Iceberg's) has in
// its name the number of the commit, of any source, that it was made for. What is
// under way has one to come, so that nothing of it is taken for a leftover. A
// snapshot stays while every source keeps the files it names, and no more than a
// hundred do; files stay as long as their source keeps them all the same.
package iceberg

import (
	"errors"

	"github.com/penstock-data/penstock/load/parquet"
)

// Options says where tables are. All but the warehouse may be left out.
type Options struct {
	parquet.Options // of the warehouse: Path or Bucket, and how files are written and kept

	// Catalog is the database of the catalog: sqlite:PATH or postgres://…; "" is a
	// file catalog.db in the warehouse, which must then be a folder.
	Catalog   string
	Name      string // of the catalog, as others that use the database call it; "penstock"
	Namespace string // of the tables; "penstock"
}

// ErrNotBuilt is returned by a binary that was built without Iceberg.
var ErrNotBuilt = errors.New("this binary was built without Iceberg (build tag iceberg)")
