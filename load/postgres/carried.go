package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// carriedPrefix begins the names of the tables of carried keys in the schema. The rest of a name identifies the
// stream and the pass. So a table that a killed process has left can be distinguished from one that is in use.
const carriedPrefix = load.Prefix + "pass_"

func carriedPrefixOf(k state.Key) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{k.Pipeline, k.Source, k.Stream}, "\x00")))
	return carriedPrefix + hex.EncodeToString(sum[:8]) + "_"
}

// Keep implements [sqlmerge.PooledSession]. In the first transaction of a pass, which is often the only one, the carried keys
// are in a temporary table. If the pass continues, Keep copies it into an unlogged table in the schema. Any session can
// use that table. So a pass needs no session between its commits. The table changes only in transactions of its stream.
// These transactions exclude each other by locking the row of the stream's cursor. Invariant 13
//
// After a crash of the server, an unlogged table is empty. Then it has fewer rows than package sqlmerge expects.
func (t *transaction) Keep(ctx context.Context, table string, columns int) (string, error) {
	kept := t.db.place(carriedPrefixOf(t.of.key) + strings.ToLower(rand.Text()[:12]))
	keys := make([]string, columns)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d", i)
	}
	err := t.run(ctx, "CREATE UNLOGGED TABLE "+kept+" AS SELECT * FROM "+table+"; ALTER TABLE "+kept+" ADD PRIMARY KEY ("+strings.Join(keys, ", ")+
		"); COMMENT ON TABLE "+kept+" IS "+literal("penstock: keys that a running pass has found unchanged; dropped when the pass ends"))
	t.kept = kept
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	t.db.kept[kept] = true
	return kept, err
}

// Prepare implements [sqlmerge.PooledSession]. Without statistics, the planner assumes that many keys are equal.
func (t *transaction) Prepare(ctx context.Context, table string) error {
	return t.run(ctx, "ANALYZE "+table)
}

// Discard implements [sqlmerge.Pooled].
func (b backend) Discard(kept string) {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	delete(b.d.kept, kept)
	b.d.garbage = append(b.d.garbage, kept)
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

// findLeftovers finds the tables of carried keys that killed processes have left for the stream. It runs after a
// commit to the stream. After that commit, no other process can commit an earlier pass, so the tables of earlier
// passes are not needed. If always is not set, it does so once for a stream that stalePasses has found. Invariant 13
func (d *DB) findLeftovers(ctx context.Context, s *session, k state.Key, always bool) {
	prefix := carriedPrefixOf(k)
	d.mu.Lock()
	stale := d.stale[prefix]
	d.mu.Unlock()
	if !stale && !always {
		return
	}
	names, err := s.strings(ctx, d.passTablesSQL(prefix))
	if err != nil {
		d.o.Log.Debug("postgres: find tables of killed passes", "error", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.stale, prefix)
	for _, name := range names {
		if table := d.place(name); !d.kept[table] {
			d.garbage = append(d.garbage, table)
		}
	}
}

// dropNow calls dropGarbage in a session of its own. If that fails, a later commit drops the tables.
func (d *DB) dropNow() {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackGrace)
	defer cancel()
	d.mu.Lock()
	garbage := len(d.garbage)
	d.mu.Unlock()
	if garbage == 0 {
		return
	}
	if s, err := d.acquire(ctx); err == nil {
		defer s.release()
		d.dropGarbage(ctx, s)
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
