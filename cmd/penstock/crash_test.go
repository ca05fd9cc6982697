//go:build cgo && duckdb_arrow && unix

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox"
)

var (
	trials    = flag.Int("trials", 0, "kill a sync at this many random instants")
	seed      = flag.Uint64("crash-seed", 0, "seed of the random instants; 0 takes one from the clock")
	crashArgs = flag.String("crash-child", "", "be the process to be killed: the configuration to sync")
	crashStep = flag.String("crash-step", "", "with -crash-child: NAME:N kills at the Nth time the step is reached; list prints the steps")
)

// crashStreams are a little of everything that can be half done: pages by
// number and by cursor, several commits, children and grandchildren, keyless
// lists, boards, and streams that are fed by others.
const crashStreams = `["v2.contacts", "v2.invoices", "crm.pipelines", "crm.lead_board", "crm.lead_detail", "sales.invoices", "sales.quotes",
    "hr.holidays_list", "hr.employees", "support.tickets", "projects.projects", "projects.task_board", "accounting.customers"]`

// TestCrashChild is the process that is killed. Its groups are small, so that
// even a short sync has many commits.
func TestCrashChild(t *testing.T) {
	if *crashArgs == "" {
		t.Skip("a child of TestCrash")
	}
	a := &app{out: os.Stdout, err: os.Stderr, byteBudget: 64 << 10, step: killAt(*crashStep)}
	os.Exit(a.execute(context.Background(), []string{"sync", "-c", *crashArgs, "--no-progress", "-q"}))
}

// killAt ends the process, as a power cut would, when a step is reached.
func killAt(spec string) func(string) error {
	if spec == "list" {
		return func(name string) error {
			fmt.Println("step " + name)
			return nil
		}
	}
	name, nth, _ := strings.Cut(spec, ":")
	n, _ := strconv.Atoi(nth)
	return func(step string) error {
		if step != name {
			return nil
		}
		if n--; n == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
}

// crashRig is a platform, a warehouse that is one change behind it, and a way
// to sync in a process that can be killed.
type crashRig struct {
	*platform
	base string // the warehouse as it was before the change
}

func newCrashRig(t *testing.T) *crashRig {
	t.Helper()
	p := newPlatform(t, sandbox.Options{NoLimits: true, Scale: 3}, crashStreams)
	r := &crashRig{platform: p, base: filepath.Join(p.dir, "base.duckdb")}
	code, out, errs := p.penstock(t, "sync")
	require.Equal(t, exitDone, code, "%s\n%s", out, errs)
	copyFile(t, p.warehouse(), r.base)
	p.change(t)
	return r
}

// reset puts the warehouse back to nothing, or to before the change.
func (r *crashRig) reset(t *testing.T, fresh bool) {
	t.Helper()
	for _, ext := range []string{"", ".wal"} {
		if err := os.Remove(r.warehouse() + ext); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if !fresh {
		copyFile(t, r.base, r.warehouse())
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, b, 0o600))
}

// sync runs the child; after is when it is killed, 0 for never.
func (r *crashRig) sync(t *testing.T, step string, after time.Duration) (killed bool, out string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestCrashChild$", "-crash-child", r.config(), "-crash-step", step)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	require.NoError(t, cmd.Start())
	if after > 0 {
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	err := cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	killed = status.Signaled() && status.Signal() == syscall.SIGKILL
	if !killed {
		require.NoError(t, err, b.String())
	}
	return killed, b.String()
}

// recover runs once more, to the end, and holds every table against the truth.
// // Invariant 1
func (r *crashRig) recover(t *testing.T, what string) {
	t.Helper()
	killed, out := r.sync(t, "", 0)
	require.False(t, killed)
	if d := r.compare(t); len(d) > 0 {
		keep := filepath.Join(os.TempDir(), "penstock-crash.duckdb")
		copyFile(t, r.warehouse(), keep)
		t.Fatalf("after %s (warehouse kept as %s):\n%s\n%s", what, keep, strings.Join(d, "\n"), out)
	}
	w := openWarehouse(t, r.warehouse())
	defer w.db.Close()
	for _, table := range []string{"v2_contacts", "v2_invoices", "crm_lead_board", "sales_invoices", "hr_employees", "support_tickets"} {
		require.Zero(t, w.count(t, "SELECT count(*) - count(DISTINCT id) FROM "+table), "after %s: a key twice in %s", what, table)
	}
}

// TestCrashAtEveryStep kills the sync at the first, a middle and the last time
// it reaches each step that a destination names, on a new warehouse and on one
// with changes and deletions to apply.
func TestCrashAtEveryStep(t *testing.T) {
	if *trials == 0 {
		t.Skip("make crash")
	}
	r := newCrashRig(t)
	for _, fresh := range []bool{true, false} {
		r.reset(t, fresh)
		_, out := r.sync(t, "list", 0)
		counts := map[string]int{}
		var order []string
		for line := range strings.Lines(out) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "step "); ok {
				if counts[name]++; counts[name] == 1 {
					order = append(order, name)
				}
			}
		}
		require.NotEmpty(t, order, out)
		for _, name := range order {
			n := counts[name]
			times := []int{1, n/2 + 1, n}
			if *trials < 100 { // the short form
				times = times[1:2]
			}
			for _, nth := range times {
				r.reset(t, fresh)
				what := fmt.Sprintf("kill at step %s, time %d of %d, fresh %v", name, nth, n, fresh)
				killed, _ := r.sync(t, fmt.Sprintf("%s:%d", name, nth), 0)
				if !killed && nth <= n/2+1 && n > 2 {
					t.Errorf("no %s", what)
				}
				r.recover(t, what)
			}
		}
		t.Logf("fresh %v: %d steps, each killed at up to three times: %v", fresh, len(order), counts)
	}
}

// TestCrashAtRandom kills the sync at random instants of its whole length.
func TestCrashAtRandom(t *testing.T) {
	if *trials == 0 {
		t.Skip("make crash")
	}
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("-crash-seed %d", s)
	random := rand.New(rand.NewPCG(s, 1))
	r := newCrashRig(t)
	took := map[bool]time.Duration{}
	for _, fresh := range []bool{true, false} {
		r.reset(t, fresh)
		begin := time.Now()
		r.sync(t, "", 0)
		took[fresh] = time.Since(begin)
	}
	kills, runs := 0, 0
	for ; kills < *trials && runs < 3**trials; runs++ {
		fresh := runs%2 == 0
		r.reset(t, fresh)
		after := time.Duration(1 + random.Int64N(int64(took[fresh])))
		begin := time.Now()
		killed, _ := r.sync(t, "", after)
		if killed {
			kills++
		} else {
			took[fresh] = min(took[fresh], time.Since(begin)) // a busy machine measured too long
		}
		r.recover(t, fmt.Sprintf("trial %d: kill after %v, fresh %v", runs, after, fresh))
	}
	t.Logf("%d kills in %d trials, 0 violations", kills, runs)
}
