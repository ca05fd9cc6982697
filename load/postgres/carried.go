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

// carried is a table of the keys, k0, k1…, of rows that a pass has carried and left
// alone. It is a temporary one in the first transaction of a pass, which is often the
// only one. A pass that goes on keeps it as an unlogged table in the schema, so that
// any session can go on with it: however many passes are under way, none holds a
// session between its commits. It changes in the transactions of its stream alone,
// which the row of the stream's cursor fences. // Invariant 13
//
// An unlogged table is empty after a crash of the server. The number of its rows tells.
type carried struct {
	table string // as SQL names it
	kept  bool   // it is in the schema
	types []arrow.DataType
	rows  int64
}

// temporaryCarried is the name of such a table for as long as its transaction.
const temporaryCarried = "pg_temp.penstock_carried"

// carriedPrefix begins the names of those in the schema. What follows tells the stream
// and the pass, so that what a process has left behind that was killed can be told from
// what another one uses.
const carriedPrefix = load.Prefix + "pass_"

func carriedPrefixOf(k state.Key) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{k.Pipeline, k.Source, k.Stream}, "\x00")))
	return carriedPrefix + hex.EncodeToString(sum[:8]) + "_"
}

// swept reports whether the transaction has looked for all that its pass did not carry.
func (x *tx) swept() bool {
	return slices.ContainsFunc(x.log, func(a *applied) bool { return a.sweep.Table != "" && a.sweep.Keys == nil })
}

// keepCarried puts the keys that the first transaction of a pass has carried where the
// next one finds them.
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
		"); COMMENT ON TABLE "+next.table+" IS "+literal("penstock: keys that a reading under way has found unchanged; dropped when it ends"))
	x.carried, x.keeps = &next, true
	return err
}

// whole reports whether the table still has every key that was put into it.
func (m *merge) whole(c *carried) (bool, error) {
	if !c.kept {
		return true, nil
	}
	var rows int64
	err := m.s.numbers(m.ctx, "SELECT count(*) FROM "+c.table, &rows)
	return rows == c.rows, err
}

const (
	dropPatience = 100 * time.Millisecond // for a table that somebody reads, a backup say
	dropAgain    = time.Minute
)

// stalePasses finds the streams that have such tables as this process begins. Another
// process may be using them.
func (d *DB) stalePasses(ctx context.Context, s *session) error {
	names, err := s.strings(ctx, d.passTablesSQL(carriedPrefix))
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		d.stale[name[:strings.LastIndexByte(name, '_')+1]] = true
	}
	return err
}

// passTablesSQL asks for such tables that this role may drop, by how their names begin.
func (d *DB) passTablesSQL(prefix string) string {
	return "SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r' AND relname >= " + literal(prefix) + " AND relname < " + literal(prefix+"~") +
		" AND relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = " + literal(d.o.Schema) + ") AND pg_catalog.pg_has_role(relowner, 'USAGE')"
}

// isStale reports whether the stream has such tables as far as this process knows.
func (d *DB) isStale(k state.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.stale) > 0 && d.stale[carriedPrefixOf(k)]
}

// leftovers finds the tables that passes of the stream have left behind whose process is
// gone. The stream was committed by this process just now: no earlier pass of another can
// commit any more, or read its table. // Invariant 13
func (d *DB) leftovers(ctx context.Context, s *session, k state.Key, own *carried) {
	prefix := carriedPrefixOf(k)
	names, err := s.strings(ctx, d.passTablesSQL(prefix))
	if err != nil {
		d.o.Log.Debug("postgres: look for tables of passes that were killed", "error", err)
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

// clean drops the tables of passes that are over, as far as nobody reads them. It is no
// part of a commit: what is left is dropped by a later one.
func (d *DB) clean(ctx context.Context, s *session) {
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
	d.o.Log.Debug("postgres: drop tables of passes that are over", "error", err)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.garbage, d.cleaned = append(d.garbage, tables...), time.Now()
}
