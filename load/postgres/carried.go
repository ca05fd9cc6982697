package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// carriedPrefix is the prefix of the names of tables with carried keys. Carried keys are the keys of the records that a
// pass has found unchanged. The rest of a table's name identifies the stream and the pass. So a process can distinguish
// its own tables from tables that a killed process has left.
const carriedPrefix = load.Prefix + "pass_"

func carriedPrefixOf(k state.Key) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{k.Pipeline, k.Source, k.Stream}, "\x00")))
	return carriedPrefix + hex.EncodeToString(sum[:8]) + "_"
}

// Keep implements [sqlmerge.PooledSession]. The first transaction of a pass stores the carried keys in a temporary
// table. Often it is the only transaction. If the pass continues, Keep copies the keys into an unlogged table in the
// schema, which any session can use. So a pass holds no session between its commits. Only transactions of the same
// stream change the table, one at a time, because each of them locks the stream's row in _penstock_state. Invariant 13
//
// After a crash of the server, an unlogged table is empty. Package sqlmerge notices this because the table has fewer
// rows than expected.
func (t *transaction) Keep(ctx context.Context, table string, columns int) (string, error) {
	kept := t.b.Place(carriedPrefixOf(t.of.key) + strings.ToLower(rand.Text()[:12]))
	keys := make([]string, columns)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d", i)
	}
	err := t.run(ctx, "CREATE UNLOGGED TABLE "+kept+" AS SELECT * FROM "+table+"; ALTER TABLE "+kept+" ADD PRIMARY KEY ("+strings.Join(keys, ", ")+
		"); COMMENT ON TABLE "+kept+" IS "+literal("penstock: keys that a running pass has found unchanged; dropped when the pass ends"))
	t.kept = kept
	t.b.passes.keep(kept)
	return kept, err
}

// Prepare implements [sqlmerge.PooledSession]. It updates the statistics, because without them the planner assumes that
// many keys are equal.
func (t *transaction) Prepare(ctx context.Context, table string) error {
	return t.run(ctx, "ANALYZE "+table)
}

// passTables lists tables of carried keys in the schema: the tables that passes of this process need, and the tables
// that must be dropped. It is safe for concurrent use.
type passTables struct {
	sql dialect
	log *slog.Logger

	mu      sync.Mutex
	kept    map[string]bool // tables that a pass of this process needs
	garbage []string        // tables of finished passes, which must be dropped
	cleaned time.Time       // time of the last failed attempt to drop the garbage
	// stale has the streams that had tables of carried keys when this process started. Its keys are results of
	// [carriedPrefixOf].
	stale map[string]bool
}

func newPassTables(sql dialect, log *slog.Logger) *passTables {
	return &passTables{sql: sql, log: log, kept: map[string]bool{}, stale: map[string]bool{}}
}

// keep() notes that a pass of this process needs a table.
func (p *passTables) keep(table string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept[table] = true
}

// forget() notes that a table does not exist, because the transaction that created it was rolled back.
func (p *passTables) forget(table string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.kept, table)
}

// discard() notes that no pass needs a table any more.
func (p *passTables) discard(table string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.kept, table)
	p.garbage = append(p.garbage, table)
}

// discardAll records that no pass of this process needs its tables any more.
func (p *passTables) discardAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.garbage = slices.AppendSeq(p.garbage, maps.Keys(p.kept))
	clear(p.kept)
}

// waiting reports whether tables are to be dropped.
func (p *passTables) waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.garbage) > 0
}

const (
	dropPatience = 100 * time.Millisecond // how long to wait for a table that another session reads, for example to make a backup
	dropAgain    = time.Minute            // pause after a failed attempt
)

// noteStale notes the streams that have tables of carried keys when this process starts. Other processes may still use
// these tables.
func (p *passTables) noteStale(tables []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range tables {
		p.stale[name[:strings.LastIndexByte(name, '_')+1]] = true
	}
}

// findLeftovers finds the tables of carried keys that killed processes have left for the stream. It runs after a commit
// to the stream. After that commit, no other process can commit an earlier pass. So the tables of earlier passes are
// not needed any more. If the parameter `always` is false, findLeftovers looks only at streams that noteStale has
// found, and only once at each stream. Invariant 13
func (p *passTables) findLeftovers(ctx context.Context, s *session, k state.Key, always bool) {
	prefix := carriedPrefixOf(k)
	p.mu.Lock()
	stale := p.stale[prefix]
	p.mu.Unlock()
	if !stale && !always {
		return
	}
	names, err := s.strings(ctx, passTablesSQL(p.sql.schema, prefix))
	if err != nil {
		p.log.Debug("postgres: find tables of killed passes", "error", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.stale, prefix)
	for _, name := range names {
		if table := p.sql.Place(name); !p.kept[table] {
			p.garbage = append(p.garbage, table)
		}
	}
}

// drop() drops the tables of finished passes. It runs after a commit. If a session is reading one of the tables,
// a later commit drops them.
func (p *passTables) drop(ctx context.Context, s *session) {
	if !s.usable() {
		return
	}
	p.mu.Lock()
	var tables []string
	if time.Since(p.cleaned) >= dropAgain {
		tables, p.garbage = p.garbage, nil
	}
	p.mu.Unlock()
	if len(tables) == 0 {
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
	p.log.Debug("postgres: drop tables of finished passes", "error", err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.garbage, p.cleaned = append(p.garbage, tables...), time.Now()
}

// passTablesSQL selects the tables whose names begin with the prefix and that penstock's role may drop.
func passTablesSQL(schema, prefix string) string {
	return "SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r' AND relname >= " + literal(prefix) + " AND relname < " + literal(prefix+"~") +
		" AND " + inSchema("relnamespace", schema) + " AND pg_catalog.pg_has_role(relowner, 'USAGE')"
}
