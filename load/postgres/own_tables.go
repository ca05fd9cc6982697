package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state/pgerror"
)

// ownTables records which of penstock's own tables exist. It is safe for concurrent use.
type ownTables struct {
	mu    sync.Mutex
	ready map[bool]bool // ready[true]: the tables exist and sources share them; ready[false]: the tables exist and no sources share them
}

// known() reports whether the tables for the source are known to exist.
func (o *ownTables) known(source string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ready[source != ""]
}

// exist() reports whether the tables are known to exist, for one source or for many.
func (o *ownTables) exist() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.ready) > 0
}

// learn() notes that the tables for the source now exist.
func (o *ownTables) learn(source string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ready[source != ""] = true
}

// recheck is for the case that a person has dropped one of penstock's own tables. If err says that a table is missing,
// recheck wraps err so that the transaction is tried again, and the next attempt creates the table. Any other error is
// returned unchanged.
func (o *ownTables) recheck(err error) error {
	if pgerror.Code(err) != pgerror.UndefinedTable {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.ready)
	return retryable{err}
}

func createLacking(ctx context.Context, s *session, sql dialect, source string) error {
	// If other processes want to create the same tables, they wait here, and then find the tables.
	if err := s.run(ctx, s.pool.advisoryLockSQL("penstock "+sql.schema)); err != nil {
		return err
	}
	lacking, err := lackingOwn(ctx, s, sql.schema, source)
	if err != nil {
		return err
	}
	var schema int64
	if err := s.numbers(ctx, "SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = "+literal(sql.schema), &schema); err != nil {
		return err
	}
	if schema == 0 {
		if err := s.run(ctx, "CREATE SCHEMA "+ident(sql.schema)); err != nil {
			return err
		}
	}
	for _, l := range lacking {
		if err := s.run(ctx, makeSQL(sql, l)); err != nil {
			return fmt.Errorf("%s: %w", l.table.Name, err)
		}
	}
	return nil
}

// lack describes one of penstock's own tables that is missing, or that lacks columns. An older version of penstock may
// have created the table without these columns.
type lack struct {
	table   schemas.Table
	there   bool
	columns []arrow.Field
}

// lackingOwn finds out which of penstock's own tables are missing or lack columns. It returns an error if the tables of
// the schema cannot hold rows of the given source: see [load.CheckSharing].
func lackingOwn(ctx context.Context, s *session, schema, source string) (all []lack, err error) {
	found, err := readObjects(ctx, s, schema, ownNames())
	if err != nil {
		return nil, err
	}
	if there := found[load.State.Name]; there != nil {
		_, shared := there.Types[schemas.ColSource]
		if err := load.CheckSharing(shared, source); err != nil {
			return nil, err
		}
	}
	for _, t := range load.OwnTables() {
		there := found[t.Name]
		l := lack{table: ownTable(t, source), there: there != nil}
		for _, f := range l.table.Columns.Fields() {
			if there == nil || there.Types[f.Name] == "" {
				l.columns = append(l.columns, f)
			}
		}
		if len(l.columns) > 0 {
			all = append(all, l)
		}
	}
	return all, nil
}

// ownNames returns the names of penstock's own tables.
func ownNames() (names []string) {
	for _, t := range load.OwnTables() {
		names = append(names, t.Name)
	}
	return names
}

// ownTable returns one of penstock's own tables. If source is not "", the table has a column for the source.
func ownTable(t schemas.Table, source string) schemas.Table {
	if source == "" {
		return t
	}
	return load.ShareTable(t)
}

func makeSQL(sql dialect, l lack) string {
	t := l.table
	var defs []string
	for _, f := range l.columns {
		defs = append(defs, sql.definition(t, f))
	}
	if l.there {
		return "ALTER TABLE " + sql.Place(t.Name) + " ADD COLUMN " + strings.Join(defs, ", ADD COLUMN ")
	}
	index := ""
	if len(t.Key) > 0 {
		defs = append(defs, "PRIMARY KEY ("+idents(load.FullKey(t))+")")
	} else if columns := sqlmerge.FindColumns(t); columns != nil {
		index = "CREATE INDEX ON " + sql.Place(t.Name) + " (" + idents(columns) + "); "
	}
	return "CREATE TABLE " + sql.Place(t.Name) + " (" + strings.Join(defs, ", ") + ")" + fill(t) + "; " + index +
		"COMMENT ON TABLE " + sql.Place(t.Name) + " IS " + literal(ownComment(t))
}

// fill returns the storage option of one of penstock's own tables. Most runs replace each row of _penstock_state and
// _penstock_rejects. So the pages of these two tables are not filled up. If the new version of a row fits in the page
// of the old version, the server does not change the indexes, and writes half as much to its log.
func fill(t schemas.Table) string {
	if t.Name == load.State.Name || t.Name == load.Rejects.Name {
		return " WITH (fillfactor = 40)"
	}
	return ""
}

// ownComment returns the comment on one of penstock's own tables.
func ownComment(t schemas.Table) string {
	return "penstock: " + strings.ReplaceAll(strings.TrimPrefix(t.Name, load.Prefix), "_", " ")
}
