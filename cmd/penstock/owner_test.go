//go:build unix && cgo && duckdb_arrow

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
)

// sharedState replaces the state folder in the configuration by a state database.
func (p *platform) sharedState(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(p.config())
	require.NoError(t, err)
	all := strings.Replace(string(text), "state: "+p.dir+"/state", fmt.Sprintf("state: %q", pgtest.Start(t).URL()+"&search_path=owners"), 1)
	require.NotEqual(t, string(text), all)
	require.NoError(t, os.WriteFile(p.config(), []byte(all), 0o600))
	code, out, errs := p.penstock(t, "migrate")
	require.Zero(t, code, out+errs)
}

// on() runs a command line as if this process ran on the given host.
func (p *platform) on(t *testing.T, h open.Host, args ...string) (code int, out string) {
	t.Helper()
	var all bytes.Buffer
	a := &app{out: &all, err: &all, open: open.Opener{As: h}}
	code = a.execute(t.Context(), append(args, "-c", p.config(), "--no-progress"))
	return code, all.String()
}

// TestOwner: a file belongs to the host that wrote it first. Commands on other hosts refuse to use the file, until
// `state own` makes one of these hosts its owner.
func TestOwner(t *testing.T) {
	alpha, beta := open.Host{Name: "alpha", Machine: "1"}, open.Host{Name: "beta", Machine: "1"}
	for kind, to := range map[string]target{"duckdb": duckTarget{t.TempDir()}, "parquet": parquetTarget{t.TempDir()}} {
		t.Run(kind, func(t *testing.T) {
			p := newPlatform(t, sandbox.Options{NoLimits: true}, `["crm.sources"]`, to)
			p.sharedState(t)
			code, out := p.on(t, alpha, "sync")
			require.Equal(t, failure.ExitDone, code, out)
			for _, args := range [][]string{{"sync"}, {"query", "SELECT 1"}, {"state", "reset", "--stream", "crm.sources", "--yes"}, {"check"}, {"verify"}} {
				code, out = p.on(t, beta, args...)
				require.Equal(t, failure.ExitUsage, code, "%v: %s", args, out)
				require.Contains(t, out, "belongs to host alpha, which has written it since ", args)
				require.Contains(t, out, "this host is beta", args)
				require.Contains(t, out, "penstock -c "+p.config()+" state own --to warehouse", args)
			}
			code, out = p.on(t, open.Host{Name: "alpha", Machine: "2"}, "sync")
			require.Equal(t, failure.ExitUsage, code, out)
			require.Contains(t, out, "this host is another machine with the same name")
			code, out = p.on(t, alpha, "sync")
			require.Equal(t, failure.ExitDone, code, out)

			code, out = p.on(t, beta, "state", "own")
			require.Equal(t, failure.ExitDone, code, out)
			require.Contains(t, out, "owned by beta; previously by alpha")
			code, out = p.on(t, beta, "sync")
			require.Equal(t, failure.ExitDone, code, out)
			code, out = p.on(t, alpha, "sync")
			require.Equal(t, failure.ExitUsage, code, out)
			require.Empty(t, p.compare(t))
		})
	}
}

// TestOwnerFirst: if several hosts write for the first time at the same moment, one host becomes the owner. On the
// other hosts, the command refuses to write.
func TestOwnerFirst(t *testing.T) {
	p := newPlatform(t, sandbox.Options{NoLimits: true}, `["crm.sources"]`, parquetTarget{t.TempDir()})
	p.sharedState(t)
	codes := make([]int, 4)
	var all sync.WaitGroup
	for i := range codes {
		all.Go(func() {
			a := &app{out: &bytes.Buffer{}, err: &bytes.Buffer{}, open: open.Opener{As: open.Host{Name: fmt.Sprint("host", i)}}}
			codes[i] = a.execute(t.Context(), []string{"sync", "-c", p.config(), "--no-progress"})
		})
	}
	all.Wait()
	count := map[int]int{}
	for _, c := range codes {
		count[c]++
	}
	require.Equal(t, map[int]int{failure.ExitDone: 1, failure.ExitUsage: 3}, count)
	require.Empty(t, p.compare(t))
}

// TestOwnerOfNone: if the state is a folder and not a database, the path of a destination has no owner.
func TestOwnerOfNone(t *testing.T) {
	p := newPlatform(t, sandbox.Options{NoLimits: true}, `["crm.sources"]`, parquetTarget{t.TempDir()})
	code, out := p.on(t, open.Host{Name: "alpha"}, "sync")
	require.Equal(t, failure.ExitDone, code, out)
	code, out = p.on(t, open.Host{Name: "beta"}, "sync")
	require.Equal(t, failure.ExitDone, code, out)
	code, out = p.on(t, open.Host{Name: "beta"}, "state", "own")
	require.Equal(t, failure.ExitUsage, code, out)
	require.Contains(t, out, "has no owner")
}
