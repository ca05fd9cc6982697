//go:build iceberg && unix

package iceberg

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/state"
)

var (
	killedIn   = flag.String("killed-in", "", "run as the process that is killed; the value is its warehouse: a folder, or the address of a store")
	killedAs   = flag.String("killed-bucket", "", "with -killed-in: the bucket in the store, with its prefix")
	killedOf   = flag.String("killed-of", "", "with -killed-in: NAMESPACE@CATALOG; empty: the catalog in the folder")
	killedWith = flag.String("killed-with", "", "with -killed-in: WAREHOUSE,CREDENTIAL for the catalog")
	killedKeys = flag.Bool("killed-vended", false, "with -killed-in: the catalog gives out the keys")
	killedAt   = flag.String("killed-at", "", "with -killed-in: the step at which the process is killed; list: print the steps")
	killedBy   = flag.Int("killed-batch", 0, "with -killed-in: the number of the batch that the process commits for the source berlin")
)

func TestKilledChild(t *testing.T) {
	if *killedIn == "" || *killedAt == "" {
		t.Skip("TestSharedKilled starts this test in a process of its own")
	}
	o := childOptions(t)
	o.Step = func(name string) error {
		if *killedAt == "list" {
			fmt.Println("step " + name)
		}
		if name == *killedAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			time.Sleep(time.Minute)
		}
		return nil
	}
	must(t, of(t, open(t, o), "berlin"), state.Cursor(fmt.Sprint("at ", *killedBy-1)), *killedBy, *killedBy)
}

// childOptions returns the options that childFlags has passed to this process.
func childOptions(t *testing.T) Options {
	o := Options{Options: parquet.Options{Path: *killedIn, TempDir: t.TempDir()}}
	if strings.HasPrefix(*killedIn, "http") {
		o.Options = bucketAt(t, *killedIn)
		o.Bucket = *killedAs
	}
	o.Deletes = parquet.DeleteRule{MinSize: 1, MaxShare: 1}
	if *killedOf != "" {
		o.Namespace, o.Catalog, _ = strings.Cut(*killedOf, "@")
	}
	o.Warehouse, o.Credential, _ = strings.Cut(*killedWith, ",")
	if o.Vended = *killedKeys; o.Vended {
		o.Store.AccessKey, o.Store.SecretKey = "", ""
	}
	return o
}

// childFlags returns the flags for a process of this test binary that opens the lake.
func childFlags(o Options) []string {
	in := []string{"-killed-in", o.Path}
	if o.Bucket != "" {
		in = []string{"-killed-in", o.Store.Endpoint, "-killed-bucket", o.Bucket}
	}
	if o.Catalog != "" {
		in = append(in, "-killed-of", o.Namespace+"@"+o.Catalog, fmt.Sprint("-killed-vended=", o.Vended))
	}
	if o.Credential != "" {
		in = append(in, "-killed-with", o.Warehouse+","+o.Credential)
	}
	return in
}

func child(t *testing.T, o Options, step string, batch int) (killed bool, steps []string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], append(childFlags(o), "-test.run", "^TestKilledChild$", "-test.v",
		"-killed-at", step, "-killed-batch", fmt.Sprint(batch))...)
	out, err := c.Output()
	status, _ := c.ProcessState.Sys().(syscall.WaitStatus)
	if killed = status.Signaled(); !killed {
		require.NoError(t, err, string(out))
	}
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(line, "step "); ok && !slices.Contains(steps, strings.TrimSpace(name)) {
			steps = append(steps, strings.TrimSpace(name))
		}
	}
	return killed, steps
}

// In TestSharedKilled, two sources share a table. The test kills a process that commits for one of them, at each step
// of the commit. The rows and the cursor of the other source must not change. The killed commit must be visible as a
// whole or not at all: its rows and its cursor agree. Invariants 1, 2
func TestSharedKilled(t *testing.T) { everywhere(t, sharedKilled) }

func sharedKilled(t *testing.T, warehouse place) {
	o := warehouse(t)
	l := open(t, o)
	other := must(t, of(t, l, "boston"), "", 1, 2)
	at := must(t, of(t, l, "berlin"), "", 1, 1)
	_, steps := child(t, o, "list", 2)
	require.Contains(t, steps, "swap")
	if testing.Short() {
		steps = []string{"metadata", "swap", "swapped"}
	}
	batch := 2
	for _, step := range steps {
		killed, _ := child(t, o, step, batch+1)
		if !killed {
			batch++ // the process was not killed, because only a first commit has this step
			continue
		}
		now, err := of(t, l, "berlin").Cursor(t.Context(), key)
		require.NoError(t, err, step)
		if now == state.Cursor(fmt.Sprint("at ", batch+1)) {
			batch++
		}
		require.EqualValues(t, fmt.Sprint("at ", batch), now, step)
		tbl := metadata(t, o, "leads")
		require.Equal(t, map[string]int{"berlin": batch, "boston": 2}, bySource(t, tbl, tbl.CurrentSnapshot().SnapshotID), step)
		other = must(t, of(t, l, "boston"), other, 1+batch, 2)
		at = must(t, of(t, l, "berlin"), now, batch+1, batch+1)
		batch++
	}
	require.EqualValues(t, fmt.Sprint("at ", batch), at)
	tbl := metadata(t, o, "leads")
	for _, s := range tbl.Metadata().Snapshots() {
		bySource(t, tbl, s.SnapshotID)
	}
}
