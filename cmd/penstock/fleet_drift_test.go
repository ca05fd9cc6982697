//go:build cgo && duckdb_arrow

package main

import (
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Twelve sources share a table. One of them sends texts for a column that had numbers, so the column's type becomes
// wider. Only this source has changed, so one drift is recorded. The next run records no drift.
func TestDriftOfOneSource(t *testing.T) {
	t.Parallel()
	const sources, records = 12, 30
	w := newWorlds(t, sources)
	var changed atomic.Bool
	for _, name := range w.made {
		w.odd[name] = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			fmt.Fprint(rw, `{"data":[`)
			for n := range records {
				size := fmt.Sprint(n)
				if changed.Load() && name == "ws005" {
					size = fmt.Sprintf(`"size %d"`, n)
				}
				fmt.Fprintf(rw, `%s{"id":%d,"size":%s}`, map[bool]string{true: ","}[n > 0], n, size)
			}
			fmt.Fprint(rw, "]}")
		}
	}
	w.configure(t, fmt.Sprintf(`"duckdb:%s/w.duckdb"`, w.dir), `"*"`, "[my.things]")
	text, err := os.ReadFile(w.config())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(w.config(), append(text, "streams: {my.things: {path: /things, key: [id], records: /data, pagination: {type: none}}}\n"...), 0o600))
	drifted := func() string {
		t.Helper()
		code, out, errs := w.penstock(t, "sync")
		require.Zero(t, code, out+errs)
		code, out, errs = w.penstock(t, "query", "--format", "csv", `SELECT "column" AS c, reason AS r FROM _penstock_schema WHERE action = 'drift'`)
		require.Zero(t, code, errs)
		return out
	}
	require.Equal(t, "c,r\n", drifted())
	changed.Store(true)
	once := drifted()
	require.Regexp(t, `^c,r\nsize,warned: type_mix: [^\n]*\n$`, once)
	require.Equal(t, once, drifted(), "the sources have not changed again, so no drift is added")
}
