//go:build iceberg && unix

package iceberg

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// A process commits one batch after the other until it is killed, then the next one continues. Meanwhile readers read
// all the time. Each row has the number of the batch that changed it last. So a reader can find out which batches it
// sees, and whether it sees a part of a batch.
const (
	loopRows    = 40 // rows of each table
	loopChanged = 8  // rows that a batch changes
)

// loopIDs returns the IDs of the records in a batch. The first batch has all records.
func loopIDs(batch int) (ids []int) {
	n := loopChanged
	if batch == 1 {
		n = loopRows
	}
	for i := range n {
		ids = append(ids, (3*batch+i)%loopRows)
	}
	return ids
}

// loopTable returns what a table must have after a batch: for each ID, the batch that has changed it last.
func loopTable(batch int) map[int]int {
	out := map[int]int{}
	for n := 1; n <= batch; n++ {
		for _, id := range loopIDs(n) {
			out[id] = n
		}
	}
	return out
}

// look is what a reader has seen. It has read the cursor, then the tables, then the cursor again.
type look struct {
	Before, After string
	Leads, Mails  [][2]int // ID and batch of each row
}

// faults says what is wrong with the look. If the catalog shows all tables of a commit together, each table must be as
// new as the cursor. Otherwise, the tables may be one batch newer than the cursor, and never older. Invariants 1, 2, 7
func (l look) faults(together bool) (out []string) {
	before, after, slack := batchOfCursor(l.Before), batchOfCursor(l.After), 1
	if together {
		slack = 0
	}
	for name, rows := range map[string][][2]int{"leads": l.Leads, "leads__mails": l.Mails} {
		batch, seen := 0, map[int]int{}
		for _, r := range rows {
			batch, seen[r[0]] = max(batch, r[1]), r[1]
		}
		switch {
		case len(rows) != loopRows || fmt.Sprint(seen) != fmt.Sprint(loopTable(batch)):
			out = append(out, fmt.Sprintf("%s has a part of batch %d: %v", name, batch, rows))
		case batch < before:
			out = append(out, fmt.Sprintf("%s has batch %d, and the cursor was already at batch %d", name, batch, before))
		case batch > after+slack:
			out = append(out, fmt.Sprintf("%s has batch %d, and the cursor was still at batch %d", name, batch, after))
		}
	}
	return out
}

func batchOfCursor(at string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(at, "at "))
	return n
}

// looker reads the cursor and the tables once.
type looker func() (look, error)

// goLooker reads with iceberg-go. With a database as catalog, it finds all tables with one query, so it sees the tables
// and the cursor at the same moment.
func goLooker(t *testing.T, o Options) looker {
	b, from := catalogOf(t, o), filesOf(t, o)
	head := parquet.HeadTable(key.Stream)
	cells := func(at string, columns ...string) (out [][]string, err error) {
		rows, err := rowsAt(t.Context(), from, anyLocation(at), columns...)
		for _, r := range rows {
			cells := make([]string, len(columns))
			for i, c := range columns {
				cells[i] = r[c]
			}
			out = append(out, cells)
		}
		return out, err
	}
	cursor := func(at map[string]string) (string, error) {
		rows, err := cells(at[head], "cursor")
		if err == nil && len(rows) != 1 {
			err = fmt.Errorf("%d cursors", len(rows))
		}
		return strings.Join(slices.Concat(rows...), " "), err
	}
	locate := func(names ...string) (map[string]string, error) { return b.locate(t.Context(), names...) }
	return func() (l look, err error) {
		all, err := locate(head, "leads", "leads__mails")
		if err != nil {
			return l, err
		}
		if l.Before, err = cursor(all); err != nil {
			return l, err
		}
		if isREST(o.Catalog) { // the tables were read one after the other, perhaps before the cursor
			if all, err = locate("leads", "leads__mails"); err != nil {
				return l, err
			}
		}
		leads, err := cells(all["leads"], "id", "batch")
		mails, other := cells(all["leads__mails"], schemas.ColParent, "batch")
		if err := errors.Join(err, other); err != nil {
			return l, err
		}
		l.Leads, l.Mails, l.After = numbers(leads), numbers(mails), l.Before
		if isREST(o.Catalog) {
			if all, err = locate(head); err == nil {
				l.After, err = cursor(all)
			}
		}
		return l, err
	}
}

func numbers(rows [][]string) (out [][2]int) {
	for _, r := range rows {
		id, _ := strconv.Atoi(r[0])
		batch, _ := strconv.Atoi(r[1])
		out = append(out, [2]int{id, batch})
	}
	return out
}

const pythonLooker = `
import json, sys
from pyiceberg.catalog import load_catalog
properties, head, leads, mails = sys.argv[1:]
catalog = load_catalog("penstock", **json.loads(properties))
def rows(name, *columns):
    all = catalog.load_table(name).scan(selected_fields=columns).to_arrow().to_pylist()
    return [[r[c] for c in columns] for r in all]
for line in sys.stdin:
    look = {"Before": rows(head, "cursor")[0][0], "Leads": rows(leads, "id", "batch"), "Mails": rows(mails, "_penstock_parent", "batch")}
    look["After"] = rows(head, "cursor")[0][0]
    print(json.dumps(look), flush=True)
`

// pyLooker reads with PyIceberg, which finds one table at a time.
func pyLooker(t *testing.T, o Options) looker {
	cmd := exec.CommandContext(t.Context(), serversPath("readers/bin/python"), "-c", pythonLooker, pythonProperties(t, o),
		qualified(o, parquet.HeadTable(key.Stream), "%s.%s"), qualified(o, "leads", "%s.%s"), qualified(o, "leads__mails", "%s.%s"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	answers := json.NewDecoder(bufio.NewReader(out))
	return func() (l look, err error) {
		if _, err = fmt.Fprintln(in); err == nil {
			err = answers.Decode(&l)
		}
		return l, err
	}
}

// The process commits until it is killed.
func TestLoopChild(t *testing.T) {
	if *killedIn == "" || *killedAt != "" {
		t.Skip("TestReadersBesideKills starts this test in a process of its own")
	}
	// A claim of a killed process holds only for a short time, so that 300 kills do not take an hour.
	l, err := openLake(t.Context(), childOptions(t), 200*time.Millisecond)
	require.NoError(t, err)
	for {
		at, err := l.Cursor(t.Context(), key)
		require.NoError(t, err)
		for err == nil {
			fmt.Println("at", at)
			batch := batchOfCursor(string(at)) + 1
			at, err = putIDs(t.Context(), l, at, batch, loopIDs(batch))
		}
		require.ErrorIs(t, err, state.ErrMoved) // the killed process has sent a request that the catalog executes only now
	}
}

// killLoop starts the process and kills it after up to two commits, at a random moment of the next one. It returns the
// number of commits.
func killLoop(t *testing.T, o Options) (commits int) {
	t.Helper()
	var problem strings.Builder
	c := exec.CommandContext(t.Context(), os.Args[0], append(childFlags(o), "-test.run", "^TestLoopChild$", "-test.v")...)
	c.Stderr = &problem
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	lines, last, took := bufio.NewScanner(out), time.Now(), 100*time.Millisecond
	for want := rand.IntN(3); lines.Scan(); {
		text := lines.Text()
		if !strings.HasPrefix(text, "at ") {
			fmt.Fprintln(&problem, text)
			continue
		}
		if commits > 0 {
			took = time.Since(last)
		}
		if last = time.Now(); commits == want {
			break
		}
		commits++
	}
	time.Sleep(rand.N(took))
	_ = c.Process.Kill()
	_ = c.Wait()
	status, _ := c.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, status.Signaled(), problem.String())
	return commits
}

// Readers read in a loop while processes commit and are killed. They must never see a part of a commit.
// PENSTOCK_TEST_TRIALS is the number of kills. Invariants 1, 2, 7
func TestReadersBesideKills(t *testing.T) {
	everywhere(t, readersBesideKills)
}

func readersBesideKills(t *testing.T, at place) {
	o := withDeletes(at)(t)
	o.Namespace = namespaceOf(o)
	l := open(t, o)
	_, err := putIDs(t.Context(), l, "", 1, loopIDs(1))
	require.NoError(t, err)
	kills, lookers := 300, map[string]looker{"iceberg-go": goLooker(t, o)}
	if testing.Short() {
		kills = 5
	} else if serversPath("readers/bin/python") != "" {
		lookers["PyIceberg"] = pyLooker(t, o)
	}
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS")); err == nil {
		kills = n
	}
	stop, looks := make(chan struct{}), map[string]*int{}
	var wg sync.WaitGroup
	end := sync.OnceFunc(func() { close(stop); wg.Wait() })
	defer end() // also if killLoop fails the test: a reader must not read or report when the test has ended
	for name, see := range lookers {
		n := new(int)
		looks[name] = n
		together := !isREST(o.Catalog) && name == "iceberg-go" // a REST catalog need not show all tables of a commit together
		wg.Go(func() { *n = lookOn(t, name, see, together, stop) })
	}
	commits := 0
	for range kills {
		commits += killLoop(t, o)
	}
	end()
	for name, n := range looks {
		t.Logf("%d kills, %d commits, %s looked %d times", kills, commits, name, *n)
		require.Positive(t, *n, name)
	}
	settled(t, o, lookers["iceberg-go"], commits)
}

// lookOn looks until it is stopped, and returns how often it has looked.
func lookOn(t *testing.T, name string, see looker, together bool, stop chan struct{}) (n int) {
	for faults := 0; faults < 10; n++ {
		select {
		case <-stop:
			return n
		default:
		}
		l, err := see()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			faults++
			continue
		}
		for _, fault := range l.faults(together) {
			t.Errorf("%s: the cursor was %s and then %s: %s", name, l.Before, l.After, fault)
			faults++
		}
	}
	return n
}

// settled makes one more commit. Then nothing of the killed processes may be left.
func settled(t *testing.T, o Options, see looker, commits int) {
	t.Helper()
	l := open(t, o)
	batch := batchOfCursor(string(now(t, l)))
	require.GreaterOrEqual(t, batch, 1+commits, "a commit is lost")
	_, err := putIDs(t.Context(), l, now(t, l), batch+1, loopIDs(batch+1))
	require.NoError(t, err)
	last, err := see()
	require.NoError(t, err)
	require.Empty(t, last.faults(true))
	require.Equal(t, fmt.Sprint("at ", batch+1), last.After)
	var scanned []loadtest.Row
	for _, name := range []string{"leads", "leads__mails"} {
		scanned = append(scanned, read(t, o, name)...)
	}
	require.Len(t, scanned, 2*loopRows)
}
