//go:build iceberg

package iceberg

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/iceberg-go/table"

	"github.com/penstock-data/penstock/load"
)

// namespaces has the names of the two namespaces of a destination. The tables of the user's streams are in one, and
// penstock's internal tables in the other. So a table of the user cannot have the name of an internal table.
type namespaces struct{ tables, internal string }

// internalSuffix ends the name of the namespace with the internal tables.
const internalSuffix = "_penstock"

// identifier returns the namespace of a table, and the table's name in it. Some catalogs accept no name that begins with
// an underscore, so the internal tables have their names without it.
func (n namespaces) identifier(table string) (namespace, name string) {
	if load.IsInternal(table) {
		return n.internal, strings.TrimPrefix(table, "_")
	}
	return n.tables, table
}

// table is the inverse of identifier.
func (n namespaces) table(namespace, name string) string {
	if namespace == n.internal {
		return "_" + name
	}
	return name
}

// headPrefix starts the names of all head tables.
var headPrefix = load.State.Name + "__"

// checkLayout is called before the namespace of the internal tables is created. It returns an error if the internal
// tables are already among the user's tables. Penstock would not find the cursors in them, and so would load all rows
// again.
func (n namespaces) checkLayout(names []string) error {
	for _, name := range names {
		if strings.HasPrefix(name, headPrefix) {
			return fmt.Errorf("namespace %s has the table %s, which belongs in the namespace %s: another version of penstock has made it"+
				"\nhint: load into an empty folder, with another namespace (schema)", n.tables, name, n.internal)
		}
	}
	return nil
}

// backend keeps the tables of two [namespaces]. There are two kinds: the database of a JDBC catalog ([pointers]), and a
// REST catalog ([restCatalog]).
type backend interface {
	// names returns the names of all internal tables.
	names(ctx context.Context) ([]string, error)

	// locate returns the location of each table's metadata, by table name. Every change of a table gives its metadata a
	// new location. The map has no entry for a table that does not exist.
	locate(ctx context.Context, names ...string) (map[string]string, error)

	// metadata reads the metadata at a location that locate() has returned. If the table has changed since then and the
	// metadata file was removed, the error wraps fs.ErrNotExist.
	metadata(ctx context.Context, name, at string) (table.Metadata, error)

	// create creates an empty table, if the catalog cannot create tables in a commit. It reports whether the table
	// exists after the call. The table may also exist because another process has created it.
	create(ctx context.Context, name string, updates []table.Update) (exists bool, err error)

	// prepare writes the files that a change needs.
	prepare(ctx context.Context, c *change, file string) error

	// commit makes all changes if none of the tables has changed since its metadata was read. Otherwise it returns
	// errConflict. If the answer is lost, it returns errUnknown. Invariants 1, 13
	commit(ctx context.Context, all []change) error

	// atomic() reports whether a commit certainly changes all tables in one step. If the result is false, a commit may
	// change them one after the other, in the order of the list. Then the caller must first reserve the stream for its
	// commit: see [commit.claim].
	atomic() bool

	Close() error
}

// change is the change of one table.
type change struct {
	table   string
	from    string         // location of the metadata before the change; "": the table does not exist
	base    table.Metadata // metadata before the change; nil: the table does not exist
	updates []table.Update
	meta    table.Metadata // the metadata after the updates; nil: the table is dropped
	to      string         // location of the written metadata; "": the table is dropped, or the catalog writes it
}

// errConflict reports that another program has changed a table after this attempt has read it. This attempt has
// committed nothing.
var errConflict = errors.New("another program has committed at the same time")

// errUnknown reports that the answer to a commit was lost.
var errUnknown = errors.New("it is unknown whether the catalog has committed")
