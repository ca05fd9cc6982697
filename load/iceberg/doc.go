// Package iceberg loads tables into Apache Iceberg, for any engine that reads it.
//
// An Iceberg table is a list of Parquet files. So this destination is a lake of package parquet whose
// commits are recorded in an Iceberg catalog: the tables of a namespace in a SQL catalog, with the
// layout of Iceberg's JDBC catalog, in a SQLite file or in Postgres. Changed rows are written by
// replacing their files (copy on write), in one snapshot of each table.
//
// # Atomic commits
//
// All tables of a stream change together. A commit writes new metadata files for every table that it
// changes. Then it swaps all pointers to them in one transaction of the catalog's database, each on the
// condition that it has not changed since. Readers see all of a commit or nothing. // Invariants 1, 7
//
// The summaries of the snapshots that a commit makes have the cursor (penstock.cursor) and further
// properties for people. The authoritative cursor is that of the head table, _penstock_state__<stream>,
// which every commit changes. If two commits follow the same one, the second finds the head table's
// pointer changed, and has no effect. // Invariants 2, 13
//
// # Tables in the catalog
//
// Tables have the same names as elsewhere in penstock. Internal tables exist per stream, with the
// stream's name as a suffix (_penstock_rejects__<stream>). Columns have field IDs in the catalog and in
// the files, so a new column, or more digits for a decimal, needs no rewrite of files. A column that is
// widened in a way that Iceberg does not support gets a new ID, and its rows are rewritten. If another
// program writes to these tables, the stream stops with a diff. // Invariant 16
//
// The manifests have the bounds and null counts of each file's columns, so that engines can skip files.
//
// Commits merge small files. Snapshots are kept as long as the generations of a lake
// ([parquet.Options].Keep and KeepFor). The first commit of a run removes files that only expired
// snapshots used.
//
// # Sources that share tables
//
// A table that several sources share is one table in the catalog, partitioned by _penstock_source, its
// first column, and by dates if configured. Each source has its own sequence of commits: its data files
// are in its own folder, a manifest of penstock lists them, and a property of the head table
// (penstock.source.<name>) names the source's last manifest. The property changes in the same swap as
// the rows and the cursor. If another source commits first, the commit is repeated on top of the new
// state of the tables. It changes only files and manifest entries of its own source. If another process
// has committed for the same source, it fails. // Invariants 2, 13
//
// A shared table has the columns of all sources. Field IDs are hashes of the columns' names and types,
// so that two sources that add the same column at the same time give it the same ID. If a commit has a
// type that the table's column cannot hold, its rows and those of all other sources are rewritten with
// a type that holds both, as one commit of each source in one swap. Their cursors stay the same, and
// transactions in progress can continue.
//
// The names of metadata files, manifest lists and Iceberg manifests begin with the number of the
// commit, of any source, that they were written for. A commit in progress uses a higher number than all
// finished commits, so its files are never taken for leftovers. A snapshot is kept while every source
// keeps its files, but at most a hundred snapshots are kept. Data files are kept as long as their
// source keeps them.
package iceberg

import (
	"errors"

	"github.com/penstock-data/penstock/load/parquet"
)

// Options configures the destination. All fields except the warehouse are optional.
type Options struct {
	parquet.Options // the warehouse: Path or Bucket, and how files are written and kept

	// Catalog is the database of the catalog: sqlite:PATH or postgres://…; "": the file catalog.db in
	// the warehouse, which must then be a local folder.
	Catalog   string
	Name      string // name of the catalog in the database; "": penstock
	Namespace string // namespace of the tables; "": penstock
}

// ErrNotBuilt is the error of a binary that was built without Iceberg.
var ErrNotBuilt = errors.New("this binary was built without Iceberg (build tag iceberg)")
