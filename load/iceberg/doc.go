// Package iceberg loads tables into Apache Iceberg. Any engine that supports Iceberg can read them.
//
// An Iceberg table is a list of Parquet files. So this destination is a lake of package parquet, whose commits are
// recorded in an Iceberg catalog. There are two kinds of catalogs. One is a SQLite file or a Postgres database with the
// layout of Iceberg's JDBC catalog. The other is a REST catalog. To change few rows of a large file, a commit adds a
// position delete file and a file with the new rows (merge on read). It replaces other files that contain changed rows
// (copy on write): see [parquet.DeleteRule]. It makes one snapshot of each table.
//
// # Atomic commits
//
// All tables of a stream change together. A commit writes new metadata files for every table that it changes. The
// catalog's database has a pointer to the current metadata of each table. One transaction of this database, the swap,
// moves all these pointers to the new files. The swap takes place only if no pointer has changed since the commit
// began. So readers see either the whole commit or nothing of it.
// Invariants 1, 7
//
// The summaries of a commit's snapshots contain the cursor (penstock.cursor), and further properties for people.
// Penstock reads the cursor from the stream's head table (see [parquet.HeadTable]), which every commit changes. If two
// processes commit at the same time, both start from the same pointer of the head table. The second one finds that the
// pointer has changed, and fails.
// Invariants 2, 13
//
// # REST catalogs
//
// Each kind of catalog has its own [backend]. A backend lists tables, finds their metadata, and commits a list of
// changes if none of the tables has changed since its metadata was read. A change has the metadata before and after it,
// and the updates that turn the earlier metadata into the later metadata. A database stores the location of the
// metadata that penstock has written. A REST catalog writes the metadata itself. Penstock sends it the updates, and the
// requirements that must still be true: the table's UUID, current snapshot, schema and partitioning.
//
// If the catalog supports the request transactions/commit, all tables change in one request. Then the invariants hold
// as described above, provided that the catalog makes such a transaction atomic. Few catalogs can create tables in a
// transaction. So penstock creates empty tables before the transaction.
//
// If the catalog does not support transactions/commit, the tables change one after the other, and the head table last.
// Then:
//   - Invariant 2 holds: the cursor is visible only after all rows. The snapshot of another table may already have a
//     later cursor in its summary, but penstock does not read that cursor.
//   - Invariant 1 holds: the head table lists, for each table, the snapshot that belongs to the last commit. If a table
//     has a later snapshot of penstock, a commit was interrupted. The next commit then continues from the listed
//     snapshot, and so discards the changes of the interrupted commit. It writes a new snapshot even if it changes no
//     file of the table.
//   - Invariant 7 holds for each table, but not for several tables together. During a commit, readers may find one
//     table of a stream after the commit and another table before it. If the commit is interrupted, this lasts until
//     the next run.
//
// With a REST catalog, penstock needs a claim to keep invariant 13. Before a process changes tables, it adds a
// snapshot, the claim, to the head table. This snapshot changes no rows, and has the ID of the process's commit. The
// head table changes only if this snapshot is still the current one. Other processes wait for ten seconds before they
// take over the claim. Penstock makes a claim even if the catalog supports transactions/commit, because a client cannot
// find out whether the catalog handles two transactions at the same time correctly. The reference implementation does
// not handle them correctly.
//
// If the answer to a commit is lost, or is an error of the server or of a proxy, the outcome is unknown. The next
// attempt first reads the head table. If the head table has the ID of the commit, the commit took place. Otherwise, the
// attempt repeats the commit. The catalog can execute only one of the two requests, because after one of them, the
// requirements of the other are no longer true.
//
// # Keys from the catalog
//
// A REST catalog may give out temporary keys for the bucket, which are valid for the folder of one table. Then every
// object is in the folder of a table, and the stream's manifests are in the folder of the head table. Some engines remove
// orphan files in all folders below a table, so they must not do this for the head table. Without such keys, the
// manifests are outside of the folders of the tables. Before a table exists, penstock stages its creation to get keys for its
// first data files.
//
// # Tables in the catalog
//
// Tables have the same names as in other destinations. Penstock's internal tables are in a namespace of their own, which
// has the name of the tables' namespace with the suffix _penstock. Each stream has its own internal tables, with the
// stream's name as a suffix: penstock_rejects__crm__leads is for the stream crm.leads. See [parquet.CatalogName]. No
// name begins with an underscore or has a dot. The property penstock.stream of a table has the exact name of the stream. A commit changes tables in
// both namespaces in the same step.
//
// Columns have field IDs in the catalog and in the files. So no file is rewritten when a column is added, or when a
// decimal gets more digits. If a column is widened in another way, it gets a new ID, and the files of the table are
// rewritten.
//
// # Other programs that write
//
// Another program may change files without changing rows: it compacts files, rewrites manifests, expires snapshots or
// sets tags. Its snapshots have the operation replace. The next commit then starts from penstock's last snapshot, not
// from the other program's snapshot, because penstock must know which rows are in which of its files. The tag _penstock
// keeps the files of penstock's last snapshot. Penstock reads all snapshots that follow its own snapshot, to check that
// they change no rows. If some of them have expired, penstock reads about them in earlier metadata files.
//
// If another program changes rows or columns, the stream stops and reports the differences. [parquet.Lake.Accept]
// undoes the changes. // Invariant 16
//
// The Iceberg manifests have the sizes, bounds and null counts of each file's columns, so that engines can skip files.
//
// Commits merge small files. Snapshots are kept as long as the generations of a lake ([parquet.Options].Keep and
// KeepFor). If another program has tagged a snapshot, it is kept as long as it has this tag. The first commit of a run
// removes files that only expired snapshots need.
//
// # Sources that share tables
//
// A table that several sources share is one table in the catalog. It is partitioned by _penstock_source, its first
// column, and by dates if configured. Each source has its own sequence of commits. The data files of a source are in
// the folder of this source, and are listed in a manifest of penstock. For each source, the stream's head table
// has a property penstock.source.<name> with the name of the source's last manifest. The
// swap changes this property together with the rows and the cursor.
//
// If another source commits first, penstock repeats the commit, and starts from the new state of the tables. This is
// possible because a commit changes only files and manifest entries of its own source. If another process has committed
// for the same source, the commit fails. Invariants 2, 13
//
// A shared table has the columns of all sources. Field IDs are hashes of the columns' names and types. So if two
// sources add the same column at the same time, both give it the same ID. If the table's column cannot hold the values
// of a commit, the column gets a wider type, and the files of all sources are rewritten. For this, each source gets a
// commit, and one swap publishes all of these commits. The other sources keep their cursors, and their transactions in
// progress can continue.
//
// The commits of all sources are numbered together. The names of metadata files, manifest lists and Iceberg manifests
// begin with the number of the commit that wrote them. A commit in progress has a higher number than all finished
// commits, so no other process removes its files as unused. A snapshot can be read only if the data files of all
// sources are there. A data file is kept as long as its source keeps it. So a snapshot is kept only as long as every
// source keeps its files. At most a hundred snapshots are kept.
package iceberg

import (
	"errors"

	"github.com/penstock-data/penstock/load/parquet"
)

// Options configures the destination. All fields except the warehouse are optional.
type Options struct {
	parquet.Options // the warehouse: Path or Bucket, and how files are written and kept

	// Catalog is the database of the catalog: sqlite:PATH or postgres://…, or the URL of a REST catalog: https://… By
	// default, it is the file catalog.db in the warehouse, which must then be a local folder.
	Catalog   string
	Name      string // name of the catalog in the database; "": penstock
	Namespace string // namespace of the tables; "": penstock. Penstock's internal tables are in the namespace Namespace + "_penstock"

	// The other fields are for a REST catalog.
	Warehouse  string // name of the warehouse in the catalog
	Token      string // bearer token
	Credential string // instead of Token, for OAuth2: ID:SECRET of a client
	TokenURL   string // where to get a token for Credential; "": v1/oauth/tokens of the catalog
	Scope      string // scope of the token; "": catalog
	Vended     bool   // the catalog gives out the keys for the bucket (vended credentials)
}

// Settings returns the options that are texts. The keys are the names of the destination's settings.
func (o *Options) Settings() map[string]*string {
	return map[string]*string{
		"catalog": &o.Catalog, "catalog_name": &o.Name, "warehouse": &o.Warehouse, "token": &o.Token,
		"credential": &o.Credential, "token_url": &o.TokenURL, "scope": &o.Scope,
	}
}

// ErrNotBuilt is the error of a binary that was built without Iceberg.
var ErrNotBuilt = errors.New("this binary was built without Iceberg (build tag iceberg)")
