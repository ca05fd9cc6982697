//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
)

// lineCount is an io.Writer that stores the text and counts its lines. When a given number of lines is complete, it
// calls done().
type lineCount struct {
	mu   sync.Mutex
	text bytes.Buffer
	left int
	done func()
}

func (l *lineCount) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was := l.left; was > 0 {
		if l.left -= bytes.Count(p, []byte("\n")); l.left <= 0 {
			l.done()
		}
	}
	return l.text.Write(p)
}

// TestManySourcesSilent: two thirds of the workspaces do not answer. These are more workspaces than a run reads at the
// same time. The run still reads all others.
func TestManySourcesSilent(t *testing.T) {
	t.Parallel()
	w := newWorlds(t, 90)
	gone := make(chan struct{})
	defer close(gone)
	var hang []string
	for i, name := range w.made {
		if i%3 != 2 {
			hang = append(hang, name)
			w.odd[name] = func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-r.Context().Done():
				case <-gone:
				}
			}
		}
	}
	w.configure(t, `"duckdb:`+w.dir+`/w.duckdb"`, `"*"`, `["crm.lead_stages"]`)
	text, err := os.ReadFile(w.config())
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), ":"); slices.Contains(hang, name) { // separate keys for these workspaces: with one key, all workspaces would share a rate limit
			lines[i] = strings.ReplaceAll(line, "sandbox_readonly", name)
		}
	}
	require.NoError(t, os.WriteFile(w.config(), []byte(strings.Join(lines, "\n")), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &lineCount{left: len(w.made) - len(hang), done: stop}
	var errs bytes.Buffer
	code := runCommand(ctx, []string{"sync", "--json", "-c", w.config(), "--no-progress"}, out, &errs)
	require.NotEqual(t, failure.ExitDone, code)
	require.Equal(t, len(w.made)-len(hang), strings.Count(out.text.String(), `"exit_code":0`), "%s\n%s", out.text.String(), errs.String())
	w.holds(t, "crm_lead_stages", "crm.lead_stages", hang...)
}
