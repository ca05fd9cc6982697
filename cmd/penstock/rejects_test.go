//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRejectsUntilTheyAreAccepted loads two lists into each destination. One list has a record and values that no
// table can hold. The result of this list's stream is "partial" until a user accepts the loss. Further runs add no
// rejects while the source does not change. The other list has no faults, and its verdict is always proven.
func TestRejectsUntilTheyAreAccepted(t *testing.T) {
	t.Parallel()
	sound := []string{`{"id":2,"a":"x"}`, `{"id":3,"a":"y"}`}
	lists := map[string][]string{
		"/sound":  sound,
		"/broken": append([]string{`null`, "{\"id\":1,\"a\":\"x\xff\",\"items\":[null,{\"n\":1}]}", "{\"id\":4,\"a\":\"tab\there\"}"}, sound...),
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, ok := lists[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"data":[%s],"total":%d}`, strings.Join(all, ","), len(all))
	}))
	defer srv.Close()
	onEach(t, func(t *testing.T, to target) {
		dir := t.TempDir()
		config := filepath.Join(dir, "pipelines.yaml")
		require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `version: 1
sources: {main: {app: {base_url: %s, auth: {token: t}, rate: 100000/s}}}
destinations: {warehouse: %q}
pipelines: {all: {from: main, to: [warehouse], streams: ["x.*"]}}
streams: {x.sound: {path: /sound}, x.broken: {path: /broken}}
state: %s/state
`, srv.URL, to.url(), dir), 0o600))
		penstock := func(want int, args ...string) string {
			t.Helper()
			var out, errs bytes.Buffer
			code := runCommand(t.Context(), append(args, "-c", config, "--no-progress"), &out, &errs)
			require.Equal(t, want, code, "%v: %s%s", args, out.String(), errs.String())
			return out.String()
		}
		for range 3 {
			out := penstock(75, "sync", "-v")
			require.Regexp(t, `(?m)^partial +x\.broken → warehouse\n +x\.broken: 1 record could not be stored$`, out)
			require.Regexp(t, `(?m)^x\.sound +complete +proven +2 `, out)
			require.Regexp(t, `(?m)^x\.broken +partial +unproven +5 +\d+ +\d+ +0 +1 `, out)
			require.JSONEq(t, `{"stream":"x.broken","records":1,"values":2,"accepted":0,"resolved":0}`, penstock(0, "rejects", "--json"))
		}
		require.Regexp(t, `(?m)^x\.broken +warehouse +1 +2 +0$`, penstock(0, "rejects", "accept", "--stream", "x.broken"))
		require.Regexp(t, `(?m)^x\.broken +complete +proven +5 +0 +4 +0 +1 `, penstock(0, "sync", "-v"))
		require.JSONEq(t, `{"stream":"x.broken","records":1,"values":2,"accepted":3,"resolved":0}`, penstock(0, "rejects", "--json"))

		w := to.open(t)
		defer w.db.Close()
		var rows, items int
		require.NoError(t, w.db.QueryRow("SELECT (SELECT count(*) FROM x_broken), (SELECT count(*) FROM x_broken__items)").Scan(&rows, &items))
		require.Equal(t, []int{4, 1}, []int{rows, items}, "all other rows must be stored")
	})
}
