//go:build cgo && duckdb_arrow && unix

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/extract/sandbox"
)

var (
	trials    = flag.Int("trials", 0, "kill a sync at this many random instants, for each kind of destination")
	seed      = flag.Uint64("crash-seed", 0, "seed of the random instants; 0 takes one from the clock")
	crashArgs = flag.String("crash-child", "", "run as the process that a test kills, and sync this configuration")
	crashOf   = flag.String("crash-source", "", "with -crash-child: sync only this source")
	crashStep = flag.String("crash-step", "", "with -crash-child: NAME:N:SIGNAL sends SIGNAL to the process when it reaches step NAME for the Nth time; list prints the steps")
)

// crashStreams cover everything that a crash can leave half done: lists that are paged by number or by cursor, several
// commits, child tables and their child tables, lists without a key, boards, and child streams.
const crashStreams = `["v2.contacts", "v2.invoices", "crm.pipelines", "crm.lead_board", "crm.lead_detail", "sales.invoices", "sales.invoice", "sales.quotes",
    "hr.holidays_list", "hr.employees", "support.tickets", "projects.projects", "projects.task_board", "accounting.customers"]`

// fewStreams has one stream of each kind. Its syncs are short, so that a thousand kills at random instants take only
// minutes.
const fewStreams = `["v2.contacts", "crm.pipelines", "crm.lead_board", "crm.lead_detail", "sales.invoices", "hr.holidays_list"]`

// TestCrashChild runs in the process that a test kills. Its commits are small, so that even a short sync makes many
// commits.
func TestCrashChild(t *testing.T) {
	if *crashArgs == "" {
		t.Skip("the tests whose names begin with TestCrash run this as a process")
	}
	a := &app{out: os.Stdout, err: os.Stderr, byteBudget: 64 << 10, open: open.Opener{Step: signalAt(*crashStep)}}
	args := []string{"sync", "-c", *crashArgs, "--no-progress", "-q"}
	if *crashOf != "" {
		args = append(args, "--source", *crashOf)
	}
	os.Exit(a.execute(context.Background(), args))
}

// crashRig is a platform and a warehouse that lacks the platform's latest changes. It syncs in processes that can be
// killed.
type crashRig struct {
	*platform
	other  string // a configuration that differs only in the state folder
	source string // the source to sync; "" for all sources

	looks, rows int64 // how often readers saw rows, and how many rows they saw in all
}

func newCrashRig(t *testing.T, to target, scale int, streams string) *crashRig {
	t.Helper()
	p := newPlatform(t, sandbox.Options{NoLimits: true, Scale: scale}, streams, to)
	p.rarely(t) // otherwise a later run would read all child records again, and the test would not notice a parent that was stored before its child records
	r := &crashRig{platform: p, other: filepath.Join(p.dir, "other.yaml")}
	b, err := os.ReadFile(p.config())
	require.NoError(t, err)
	b = bytes.Replace(b, []byte("/state\n"), []byte("/state-of-another-machine\n"), 1)
	require.NoError(t, os.WriteFile(r.other, b, 0o600))
	code, out, errs := p.penstock(t, "sync")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	to.keep(t)
	p.change(t)
	return r
}

// child is a sync in its own process.
type child struct {
	*exec.Cmd
	out bytes.Buffer
}

func (r *crashRig) start(t *testing.T, config, step string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0], "-test.run", "^TestCrashChild$", "-crash-child", config, "-crash-step", step, "-crash-source", r.source)}
	c.Stdout, c.Stderr = &c.out, &c.out
	require.NoError(t, c.Start())
	return c
}

// wait returns the child's exit code, and whether it was killed.
func (c *child) wait() (code int, killed bool) {
	_ = c.Wait()
	status, _ := c.ProcessState.Sys().(syscall.WaitStatus)
	return status.ExitStatus(), status.Signaled() && status.Signal() == syscall.SIGKILL
}

// sync runs a child, and kills it after the given time. If the time is 0, sync does not kill it.
func (r *crashRig) sync(t *testing.T, step string, life time.Duration) (killed bool, out string) {
	t.Helper()
	c := r.start(t, r.config(), step)
	if life > 0 {
		timer := time.AfterFunc(life, func() { _ = c.Process.Kill() })
		defer timer.Stop()
	}
	code, killed := c.wait()
	if !killed {
		require.Zero(t, code, c.out.String())
	}
	return killed, c.out.String()
}

// recover syncs once more, to the end, and compares every table with the platform. // Invariant 1
func (r *crashRig) recover(t *testing.T, what string) {
	t.Helper()
	killed, out := r.sync(t, "", 0)
	require.False(t, killed)
	if d := r.compare(t); len(d) > 0 {
		t.Fatalf("after %s:\n%s\n%s", what, strings.Join(d, "\n"), out)
	}
	w := r.to.open(t)
	defer w.db.Close()
	for _, f := range family {
		require.Zero(t, w.count(t, broken(f.root, f.child)), "after %s: %s", what, f.root)
	}
}

// reading starts a reader, which reads the warehouse again and again, as a dashboard would, while a test changes the
// warehouse.
// Invariant 7
func (r *crashRig) reading(t *testing.T) (stop func()) {
	t.Helper()
	look, closed := r.to.watch(t)
	done := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			n, err := look(glance)
			if err != nil {
				t.Error(err)
			}
			if n > 0 {
				r.looks++
				r.rows += n
			}
			select {
			case <-done:
				return
			case <-time.After(25 * time.Millisecond):
			}
		}
	})
	return func() {
		close(done)
		reader.Wait()
		closed()
	}
}

// looked() checks that the readers of a sweep saw rows. Readers that were kept out by locks all the time could not have
// noticed a fault.
func (r *crashRig) looked(t *testing.T) {
	t.Helper()
	require.Positive(t, r.looks, "the readers saw no row in the whole sweep")
	t.Logf("readers looked %d times and saw %d rows in all", r.looks, r.rows)
}

// crashing runs a sweep, which is a series of crashes, for each kind of destination. Several sweeps run at the same
// time.
func crashing(t *testing.T, f func(t *testing.T, to target)) {
	t.Helper()
	if *trials == 0 {
		t.Skip("run by make crash")
	}
	onEach(t, func(t *testing.T, to target) {
		t.Parallel()
		f(t, to)
	})
	t.Run("bucket", func(t *testing.T) { f(t, newBucketTarget(t)) })
}

// shortForm reports whether a sweep over this kind of destination makes only a few crashes. In the short form of "make
// crash", this is true for buckets: the tests of load/parquet already make each step of a commit to a bucket fail.
func shortForm(to target) bool {
	_, far := to.(*bucketTarget)
	return far && *trials < 100
}

// instants returns the source of random numbers for a sweep, and logs the flag that repeats the same numbers.
func instants(t *testing.T, sweep uint64) *rand.Rand {
	t.Helper()
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("-crash-seed %d", s)
	return rand.New(rand.NewPCG(s, sweep))
}

// steps returns the names of the steps that a sync reaches, in order, and how often the sync reaches each step.
func (r *crashRig) steps(t *testing.T) (order []string, counts map[string]int) {
	t.Helper()
	_, out := r.sync(t, "list", 0)
	counts = map[string]int{}
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "step "); ok {
			if counts[name]++; counts[name] == 1 {
				order = append(order, name)
			}
		}
	}
	require.NotEmpty(t, order, out)
	return order, counts
}

// TestCrashAtEveryStep kills the sync at each step of a destination: when it reaches the step for the first time, in
// the middle, and for the last time. It does so for syncs into a new warehouse, and for syncs that change and delete
// rows of an older warehouse. The short form kills only one sync at each step. It syncs only a few streams, because
// they reach the same steps as many streams.
func TestCrashAtEveryStep(t *testing.T) {
	crashing(t, func(t *testing.T, to target) {
		scale, streams := 3, crashStreams
		if *trials < 100 {
			streams = fewStreams
		}
		if shortForm(to) {
			scale = 1
		}
		r := newCrashRig(t, to, scale, streams)
		done := map[string]bool{}
		for _, kept := range []bool{true, false} {
			to.reset(t, kept)
			order, counts := r.steps(t)
			for i, name := range order {
				if shortForm(to) && i%6 != 2 {
					continue
				}
				n := counts[name]
				times := []int{1, n/2 + 1, n}
				if *trials < 100 { // the short form: each step once
					if done[name] {
						continue
					}
					done[name], times = true, times[1:2]
				}
				for _, nth := range times {
					killed := r.killAt(t, kept, name, nth)
					for !killed && nth > 1 && nth <= n/2+1 { // on a busy machine, the sync may reach the step fewer times
						nth /= 2
						killed = r.killAt(t, kept, name, nth)
					}
					if !killed && nth == 1 && n > 2 {
						t.Errorf("an undisturbed sync reached step %s %d times, but the sync to be killed did not reach it", name, n)
					}
				}
			}
			t.Logf("new warehouse %v: killed at %d steps, up to three times at each; how often a sync reaches each step: %v", !kept, len(order), counts)
		}
		r.looked(t)
	})
}

// killAt kills a sync when it reaches a step for the nth time, and checks the result of the next run. It returns false
// if the sync ended before it reached the step for the nth time.
func (r *crashRig) killAt(t *testing.T, kept bool, name string, nth int) (killed bool) {
	t.Helper()
	r.to.reset(t, kept)
	what := fmt.Sprintf("kill at step %s, time %d, on a new warehouse: %v", name, nth, !kept)
	stop := r.reading(t)
	defer stop()
	killed, _ = r.sync(t, fmt.Sprintf("%s:%d", name, nth), 0)
	r.recover(t, what)
	return killed
}

// TestCrashAtRandom kills the sync at random instants.
func TestCrashAtRandom(t *testing.T) {
	crashing(t, func(t *testing.T, to target) {
		random := instants(t, 1)
		r := newCrashRig(t, to, 1, fewStreams)
		took := map[bool]time.Duration{}
		for _, kept := range []bool{false, true} {
			to.reset(t, kept)
			begin := time.Now()
			r.sync(t, "", 0)
			took[kept] = time.Since(begin)
		}
		kills, runs, most := 0, 0, *trials
		if shortForm(to) {
			most = min(most, 2)
		}
		for ; kills < most && runs < 3*most; runs++ {
			kept := runs%2 == 1
			to.reset(t, kept)
			after := time.Duration(1 + random.Int64N(int64(took[kept])))
			begin := time.Now()
			stop := r.reading(t)
			killed, _ := r.sync(t, "", after)
			if killed {
				kills++
			} else {
				took[kept] = min(took[kept], time.Since(begin)) // the machine may have been busy during the first measurement
			}
			r.recover(t, fmt.Sprintf("trial %d: kill after %v, on a new warehouse: %v", runs, after, !kept))
			stop()
		}
		r.looked(t)
		require.Positive(t, kills)
		t.Logf("%d kills in %d trials, 0 violations", kills, runs)
	})
}

// TestCrashWakesUp stops a sync at each step, lets a sync on another machine do the work, and then continues the first
// sync. The first sync must not overwrite what the second sync has committed. // Invariant 13
func TestCrashWakesUp(t *testing.T) {
	crashing(t, func(t *testing.T, to target) {
		r := newCrashRig(t, to, 1, fewStreams)
		to.reset(t, true)
		order, counts := r.steps(t)
		for i, name := range order {
			few := i%4 == 1 // the short form stops syncs only at every fourth step
			if shortForm(to) {
				few = name == "publish" // for a bucket, only at the step before the request that commits
			}
			if *trials < 100 && !few {
				continue
			}
			to.reset(t, true)
			sleeper := r.start(t, r.config(), fmt.Sprintf("%s:%d:STOP", name, counts[name]/2+1))
			stopped := sleeper.stopped(20 * time.Second)
			other := r.start(t, r.other, "")
			timer := time.AfterFunc(5*time.Second, func() { _ = other.Process.Kill() }) // the other sync may wait for locks of the stopped process
			other.wait()
			timer.Stop()
			_ = sleeper.Process.Signal(syscall.SIGCONT)
			sleeper.wait()
			require.True(t, stopped || counts[name] < 3, "never stopped at %s", name)
			r.recover(t, "a sleep at step "+name)
		}
	})
}

// stopped() waits until a signal has stopped the process, and returns true. It returns false if the process ends
// instead, or if it is not stopped within the time limit.
func (c *child) stopped(limit time.Duration) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		switch {
		case strings.HasPrefix(rest, "T"):
			return true
		case strings.HasPrefix(rest, "Z"):
			return false
		}
	}
	return false
}

// TestCrashTwoAtOnce runs two syncs at the same time, as if from two machines, and kills one of them.
func TestCrashTwoAtOnce(t *testing.T) {
	crashing(t, func(t *testing.T, to target) {
		random := instants(t, 2)
		r := newCrashRig(t, to, 1, fewStreams)
		most := max(3, *trials/50)
		if shortForm(to) {
			most = 1
		}
		for i := range most {
			to.reset(t, i%2 == 1)
			stop := r.reading(t)
			one, two := r.start(t, r.config(), ""), r.start(t, r.other, "")
			timer := time.AfterFunc(time.Duration(random.Int64N(int64(time.Second))), func() { _ = one.Process.Kill() })
			one.wait()
			two.wait()
			timer.Stop()
			r.recover(t, fmt.Sprintf("two at once, trial %d", i))
			stop()
		}
		r.looked(t)
	})
}
