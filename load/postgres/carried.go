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

// carried is a table with the carried keys of a pass, in columns k0, k1…. These are the keys of the records that the
// pass has found unchanged. In the first transaction of a pass, which is often the only one, carried is a temporary
// table. If the pass continues, the commit makes it an unlogged table in the schema, which any session can use. So a
// pass needs no session between its commits. The table changes only in transactions of its stream, which exclude each
// other by locking the row of the stream's cursor.
// Invariant 13
//
// An unlogged table is empty after a crash of the server. This is noticed because the field rows has the number of rows
// that the table should have.
type carried struct {
	table string // its SQL name
	kept  bool   // it is a table in the schema
	types []arrow.DataType
	rows  int64
}

// temporaryCarried is the name of the temporary table.
const temporaryCarried = "pg_temp.penstock_carried"

// carriedPrefix starts the names of the tables in the schema. The rest of the name identifies the stream and the
// pass, so that tables left by a killed process can be distinguished from those that another process uses.
const carriedPrefix = load.Prefix + "pass_"

func carriedPrefixOf(k state.Key) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{k.Pipeline, k.Source, k.Stream}, "\x00")))
	return carriedPrefix + hex.EncodeToString(sum[:8]) + "_"
}

// swept reports whether the transaction has made a sweep without given keys, which is the end of its pass.
func (x *tx) swept() bool {
	return slices.ContainsFunc(x.log, func(a *applied) bool { return a.sweep.Table != "" && a.sweep.Keys == nil })
}

// keepCarried stores the carried keys of a pass's first transaction for the next transaction.
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

// complete reports whether the table still has all keys that were inserted.
func (m *merge) complete(c *carried) (bool, error) {
	if !c.kept {
		return true, nil
	}
	var rows int64
	err := m.s.numbers(m.ctx, "SELECT count(*) FROM "+c.table, &rows)
	return rows == c.rows, err
}

const (
	dropPatience = 100 * time.Millisecond // lock timeout for a table that another session reads, such as a backup
	dropAgain    = time.Minute            // after an attempt that failed
)

// stalePasses finds the streams that have tables of carried keys when this process starts. Another process may be using
// these tables.
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

// isStale reports whether stalePasses found tables of carried keys for the stream, and findLeftovers has not looked at
// them yet.
func (d *DB) isStale(k state.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.stale) > 0 && d.stale[carriedPrefixOf(k)]
}

// findLeftovers finds tables of carried keys that killed processes have left for the stream. This process has just
// committed to the stream. So no other process can commit an earlier pass any more, and the tables of earlier passes
// are not needed.
// Invariant 13
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

// dropGarbage drops the tables of finished passes, except those that a session is reading. It is called after a
// commit, and a later commit drops the others.
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
