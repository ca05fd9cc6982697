// Package iceberg loads tables into Apache Iceberg, for any engine that reads it.
//
// An Iceberg table is a list of Parquet files. So this destination is a lake of package parquet, whose commits are
// recorded in an Iceberg catalog. The catalog is a SQLite file or a Postgres database with the layout of Iceberg's
// JDBC catalog, or a REST catalog. To change rows, a commit replaces the files that contain them (copy on write), in one snapshot of
// each table.
//
// # Atomic commits
//
// All tables of a stream change together. A commit writes new metadata files for every table that it changes. Then
// one transaction of the catalog's database, the swap, makes the catalog's pointers refer to these files. The swap
// takes place only if no pointer has changed since the commit began. Readers see all of a commit or nothing.
// Invariants 1, 7
//
// The snapshots of a commit have the cursor in their summaries (penstock.cursor), and further properties for people.
// Penstock reads the cursor from the stream's head table, _penstock_state__<stream>, which every commit changes. If
// two commits start from the same commit, the second one finds that the head table's pointer has changed, and fails.
// Invariants 2, 13
//
// # REST catalogs
//
// The two kinds of catalogs differ only in a [backend]: it lists tables, finds their metadata, and commits a list of
// changes of tables if none of the tables has changed since. A change has the metadata before and after, and the updates
// that lead from one to the other. A database stores the location of the metadata that penstock has written. A REST
// catalog gets the updates, and requirements that they depend on: the table's UUID, current snapshot, schema and
// partitioning. It writes the metadata itself.
//
// If the catalog has transactions/commit, all tables change in one request, and the invariants hold as above, as far as
// the catalog makes such a transaction atomic. Otherwise they hold as below.
// Tables are created before, empty, because few catalogs can create tables in a transaction.
//
// If the catalog has no transactions/commit, the tables change one after the other, and the head table last. Then:
//   - Invariant 2 holds: the cursor is visible only after all rows. The summary of a snapshot of another table may have
//     a later cursor, which penstock does not read.
//   - Invariant 1 holds: the head table lists the snapshot of each table that belongs to the last commit. If a table has a
//     later snapshot of penstock, a commit was interrupted. The next commit continues the listed snapshot, so it removes
//     what the interrupted one has changed. It writes a new snapshot even if it changes no file of the table.
//   - Invariant 7 holds for each table, but not for several: for the time of a commit, or until the next run if the commit
//     is interrupted, readers may find one table of a stream after the commit and another before it.
//
// With a REST catalog, invariant 13 needs a claim. Before it changes tables, a process adds a snapshot to the head table,
// without changes, with the ID of its commit. The head table changes only if this snapshot is still the current one.
// Others wait for ten seconds before they take over a claim. This also holds with transactions/commit, because a client
// cannot find out whether two transactions at the same time are safe. Those of the reference implementation are not.
//
// If the answer to a commit is an error of the server or a proxy, or is lost, the outcome is unknown. The next attempt
// first reads the head table. If it has the ID of the commit, the commit took place. Otherwise, the commit is repeated.
// If the first one takes place after all, the requirements of the second one no longer hold.
//
// # Tables in the catalog
//
// Tables have the same names as in other destinations. Internal tables exist per stream, with the stream's name as a
// suffix (_penstock_rejects__<stream>). Columns have field IDs in the catalog and in the files. So no file is
// rewritten when a column is added, or when a decimal gets more digits. A column that is widened in another way gets
// a new ID, and its files are rewritten.
//
// # Other programs that write
//
// Another program may change files without changing rows: it compacts files, rewrites manifests, expires snapshots or
// sets tags. Its snapshots have the operation replace. The next commit then continues penstock's last snapshot, not the
// other program's, because penstock must know which of its files has which rows. The tag _penstock keeps the files of
// that snapshot. If a snapshot in between has expired, penstock finds it in earlier metadata files.
//
// If another program changes rows or columns, the stream stops and reports the differences. [parquet.Lake.Accept] undoes
// the changes. // Invariant 16
//
// The Iceberg manifests have the bounds and null counts of each file's columns, so that engines can
// skip files.
//
// Commits merge small files. Snapshots are kept as long as the generations of a lake ([parquet.Options].Keep and
// KeepFor), or as long as they have a tag of another program. The first commit of a run removes files that only expired
// snapshots used.
//
// # Sources that share tables
//
// A table that several sources share is one table in the catalog. It is partitioned by _penstock_source, its first
// column, and by dates if configured. Each source has its own sequence of commits. The data files of a source are in
// the folder of this source, and are listed in a manifest of penstock. A property of the head table
// (penstock.source.<name>) has the name of the source's last manifest. It changes in the same swap as the rows and the
// cursor.
//
// If another source commits first, a commit is repeated with the new state of the tables. This is possible because a
// commit changes only files and manifest entries of its own source. If another process has committed for the same
// source, the commit fails. Invariants 2, 13
//
// A shared table has the columns of all sources. Field IDs are hashes of the columns' names and types. So if two
// sources add the same column at the same time, both give it the same ID. If the table's column cannot hold the values
// of a commit, the files of all sources are rewritten with a wider type. For this, each source gets a commit, and one
// swap publishes all of these commits. The other sources keep their cursors, and their transactions in progress can
// continue.
//
// The commits of all sources are numbered together. The names of metadata files, manifest lists and Iceberg manifests
// begin with the number of the commit that wrote them. A commit in progress has a higher number than all finished
// commits, so its files are never removed as unused. A snapshot is kept as long as every source keeps the snapshot's
// files. At most a hundred snapshots are kept. Data files are kept as long as their source keeps them.
package iceberg

import (
	"errors"

	"github.com/penstock-data/penstock/load/parquet"
)

// Options configures the destination. All fields except the warehouse are optional.
type Options struct {
	parquet.Options // the warehouse: Path or Bucket, and how files are written and kept

	// Catalog is the database of the catalog: sqlite:PATH or postgres://…; "": the file catalog.db in the warehouse, which
	// then must be a local folder. Or it is the URL of a REST catalog: https://…
	Catalog   string
	Name      string // name of the catalog in the database; "": penstock
	Namespace string // namespace of the tables; "": penstock

	// The other fields are for a REST catalog.
	Warehouse  string // name of the warehouse in the catalog
	Token      string // bearer token
	Credential string // instead of Token, for OAuth2: ID:SECRET of a client
	TokenURL   string // where to get a token for Credential; "": v1/oauth/tokens of the catalog
	Scope      string // scope of the token; "": catalog
}

// Settings returns the fields of the options that are texts, by the names of the destination's settings.
func (o *Options) Settings() map[string]*string {
	return map[string]*string{
		"catalog": &o.Catalog, "catalog_name": &o.Name, "warehouse": &o.Warehouse, "token": &o.Token,
		"credential": &o.Credential, "token_url": &o.TokenURL, "scope": &o.Scope,
	}
}

// ErrNotBuilt is the error of a binary that was built without Iceberg.
var ErrNotBuilt = errors.New("this binary was built without Iceberg (build tag iceberg)")
