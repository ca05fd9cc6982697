//go:build cgo && duckdb_arrow && unix && iceberg

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox"
)

// sharedTarget stands for the rows of one source in tables that several sources share.
type sharedTarget struct {
	icebergTarget
	source string
	all    []string // all sources that share the tables
}

// open() opens copies of the tables. The copies have only the rows of the source.
func (s sharedTarget) open(t *testing.T) *warehouse {
	t.Helper()
	w := s.icebergTarget.open(t)
	rows, err := w.db.Query("SELECT table_name FROM information_schema.columns WHERE column_name = '_penstock_source'")
	require.NoError(t, err)
	var shared []string
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		shared = append(shared, name)
	}
	require.NoError(t, rows.Err())
	for _, name := range shared {
		_, err := w.db.Exec(fmt.Sprintf("DELETE FROM %[1]s WHERE _penstock_source <> '%[2]s'; ALTER TABLE %[1]s DROP COLUMN _penstock_source", quote(name), s.source))
		require.NoError(t, err, name)
	}
	return newWarehouse(t, w.db)
}

// watch implements [target]. It checks the rows of each source separately.
func (s sharedTarget) watch(t *testing.T) (look func(glancer) (int64, error), done func()) {
	var looks []func(glancer) (int64, error)
	for _, source := range s.all {
		one, closed := s.watchOf(t, " WHERE _penstock_source = '"+source+"'")
		t.Cleanup(closed)
		looks = append(looks, one)
	}
	return func(see glancer) (rows int64, err error) {
		for _, one := range looks {
			n, err := one(see)
			if err != nil {
				return rows, err
			}
			rows += n
		}
		return rows, nil
	}, func() {}
}

// sharedRig has two platforms that are loaded into the same tables. A separate process syncs each platform.
type sharedRig struct {
	ann, bob *crashRig
}

func newSharedRig(t *testing.T, to icebergTarget) *sharedRig {
	t.Helper()
	of := func(source string, seed uint64) *crashRig {
		own := sharedTarget{to, source, []string{"ann", "bob"}}
		return &crashRig{platform: newPlatform(t, sandbox.Options{NoLimits: true, Seed: seed}, fewStreams, own), source: source}
	}
	r := &sharedRig{ann: of("ann", 1), bob: of("bob", 2)}
	for _, one := range []*crashRig{r.ann, r.bob} {
		require.NoError(t, os.WriteFile(one.config(), fmt.Appendf(nil, `version: 1
sources:
  ann: {v2: {base_url: %[1]s, auth: {api_key: sk_sandbox_readonly}, rate: 100000/s}, app: {base_url: %[1]s, auth: {token: pat_sandbox_readonly}, rate: 100000/s}}
  bob: {v2: {base_url: %[2]s, auth: {api_key: sk_sandbox_readonly}, rate: 100000/s}, app: {base_url: %[2]s, auth: {token: pat_sandbox_readonly}, rate: 100000/s}}
destinations: {warehouse: "%[3]s"}
pipelines:
  all: {from: [ann, bob], to: [warehouse], streams: %[4]s}
state: %[5]s/state
`, r.ann.url, r.bob.url, to.url(), fewStreams, one.dir), 0o600))
		one.rarely(t)
		killed, out := one.sync(t, "", 0)
		require.False(t, killed, out)
	}
	to.keep(t)
	r.ann.change(t)
	r.bob.change(t)
	return r
}

// TestCrashShared syncs two sources into the same tables, each in its own process. It kills one process or both at
// random instants. A process that is not killed completes its sync. After one more sync of each killed process, each
// source has exactly the rows of its platform. // Invariants 1, 7, 13
func TestCrashShared(t *testing.T) {
	if *trials == 0 {
		t.Skip("run by make crash")
	}
	random := instants(t, 3)
	to := icebergTarget{parquetTarget{t.TempDir()}}
	r := newSharedRig(t, to)
	took := time.Second
	kills, runs := 0, 0
	for ; kills < *trials && runs < 3**trials; runs++ {
		kept, both := runs%2 == 1, runs%3 == 2
		to.reset(t, kept)
		stop := r.ann.reading(t)
		begin := time.Now()
		ann, bob := r.ann.start(t, r.ann.config(), ""), r.bob.start(t, r.bob.config(), "")
		after := time.Duration(random.Int64N(int64(took)))
		timers := []*time.Timer{time.AfterFunc(after, func() { _ = ann.Process.Kill() })}
		if both {
			timers = append(timers, time.AfterFunc(time.Duration(random.Int64N(int64(took))), func() { _ = bob.Process.Kill() }))
		}
		what := fmt.Sprintf("trial %d: kill after %v, both killed: %v, on a new warehouse: %v", runs, after, both, !kept)
		for _, c := range []*child{ann, bob} {
			code, killed := c.wait()
			if killed {
				kills++
				continue
			}
			require.Zero(t, code, "%s: %s", what, c.out.String())
			took = time.Since(begin) // measured in each trial, because it depends on how busy the machine is
		}
		for _, timer := range timers {
			timer.Stop()
		}
		r.ann.recover(t, what)
		r.bob.recover(t, what)
		if d := r.ann.compare(t); len(d) > 0 { // compare ann's rows again: the last run of bob must not have changed them
			t.Fatalf("after %s:\n%s", what, strings.Join(d, "\n"))
		}
		stop()
	}
	r.ann.looked(t)
	t.Logf("%d kills in %d trials, 0 violations", kills, runs)
}
