package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// carried is a table with the carried keys of a pass: the keys of the records that the pass has found unchanged. Its
// columns are k0, k1….
//
// In the first transaction of a pass, which is often the only one, it is a temporary table. If the pass continues,
// the commit copies it into an unlogged table in the schema. Any session can use that table. So a pass needs no
// session between its commits. The table changes only in transactions of its stream. These transactions exclude each
// other by locking the row of the stream's cursor. Invariant 13
//
// After a crash of the server, an unlogged table is empty. penstock notices this, because the field rows has the
// number of rows that the table should have.
type carried struct {
	table string // name in SQL
	kept  bool   // true: a table in the schema; false: a temporary table
	types []arrow.DataType
	rows  int64
}

// temporaryCarried is the name of the temporary table of carried keys.
const temporaryCarried = "pg_temp.penstock_carried"

// carriedPrefix begins the names of the tables of carried keys in the schema. The rest of a name identifies the
// stream and the pass. So a table that a killed process has left can be distinguished from one that is in use.
const carriedPrefix = load.Prefix + "pass_"

func carriedPrefixOf(k state.Key) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{k.Pipeline, k.Source, k.Stream}, "\x00")))
	return carriedPrefix + hex.EncodeToString(sum[:8]) + "_"
}

// swept reports whether the transaction has made the sweep that ends a pass: one without given keys.
func (x *tx) swept() bool {
	return slices.ContainsFunc(x.log, func(a *applied) bool { return a.sweep.Table != "" && a.sweep.Keys == nil })
}

// keepCarried copies the temporary table of a pass's first transaction into the schema, for the next transaction.
func (x *tx) keepCarried(ctx context.Context) error {
	c := x.carried
	if c == nil || c.kept || x.swept() || x.of.Once {
		return nil
	}
	next := *c
	next.table, next.kept = x.db.place(carriedPrefixOf(x.key)+strings.ToLower(rand.Text()[:12])), true
	keys := make([]string, len(c.types))
	for i := range keys {
		keys[i] = keyColumn(i)
	}
	err := x.s.run(ctx, "CREATE UNLOGGED TABLE "+next.table+" AS SELECT * FROM "+c.table+"; ALTER TABLE "+next.table+" ADD PRIMARY KEY ("+strings.Join(keys, ", ")+
		"); COMMENT ON TABLE "+next.table+" IS "+literal("penstock: keys that a running pass has found unchanged; dropped when the pass ends"))
	x.carried, x.keeps = &next, true
	return err
}

// complete reports whether the table still has all keys that were inserted into it.
func (m *merge) complete(c *carried) (bool, error) {
	if !c.kept {
		return true, nil
	}
	var rows int64
	err := m.s.numbers(m.ctx, "SELECT count(*) FROM "+c.table, &rows)
	return rows == c.rows, err
}

const (
	dropPatience = 100 * time.Millisecond // how long to wait for a table that another session reads, such as a backup
	dropAgain    = time.Minute            // pause after a failed attempt
)

// stalePasses finds the streams that have tables of carried keys when this process starts. Other processes may still
// use these tables.
func (d *DB) stalePasses(ctx context.Context, s *session) error {
	names, err := s.strings(ctx, d.passTablesSQL(carriedPrefix))
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		d.stale[name[:strings.LastIndexByte(name, '_')+1]] = true
	}
	return err
}

// passTablesSQL selects the tables whose names begin with the prefix and that penstock's role may drop.
func (d *DB) passTablesSQL(prefix string) string {
	return "SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r' AND relname >= " + literal(prefix) + " AND relname < " + literal(prefix+"~") +
		" AND relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = " + literal(d.o.Schema) + ") AND pg_catalog.pg_has_role(relowner, 'USAGE')"
}

// isStale reports whether stalePasses found tables of carried keys for the stream that findLeftovers has not yet
// handled.
func (d *DB) isStale(k state.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.stale) > 0 && d.stale[carriedPrefixOf(k)]
}

// findLeftovers finds the tables of carried keys that killed processes have left for the stream. It runs after a
// commit to the stream. After that commit, no other process can commit an earlier pass, so the tables of earlier
// passes are not needed. Invariant 13
func (d *DB) findLeftovers(ctx context.Context, s *session, k state.Key, own *carried) {
	prefix := carriedPrefixOf(k)
	names, err := s.strings(ctx, d.passTablesSQL(prefix))
	if err != nil {
		d.o.Log.Debug("postgres: find tables of killed passes", "error", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.stale, prefix)
	for _, name := range names {
		if table := d.place(name); own == nil || table != own.table {
			d.garbage = append(d.garbage, table)
		}
	}
}

// dropGarbage drops the tables of finished passes. It runs after a commit. If a session is reading one of the tables,
// a later commit drops them.
func (d *DB) dropGarbage(ctx context.Context, s *session) {
	d.mu.Lock()
	tables := d.garbage
	if time.Since(d.cleaned) < dropAgain {
		tables = nil
	}
	if tables != nil {
		d.garbage = nil
	}
	d.mu.Unlock()
	if len(tables) == 0 || !s.usable() {
		return
	}
	slices.Sort(tables)
	tables = slices.Compact(tables)
	err := s.run(ctx, "BEGIN; SET LOCAL client_min_messages = 'warning'; SET LOCAL synchronous_commit = off; SET LOCAL lock_timeout = "+millis(dropPatience)+
		"; DROP TABLE IF EXISTS "+strings.Join(tables, ", ")+"; COMMIT")
	if err == nil {
		return
	}
	s.rollback()
	d.o.Log.Debug("postgres: drop tables of finished passes", "error", err)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.garbage, d.cleaned = append(d.garbage, tables...), time.Now()
}
