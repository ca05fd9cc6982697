package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/schemas"
)

func TestOptions(t *testing.T) {
	var path string
	var threads int
	var lock time.Duration
	readers := map[string]func(string) error{"path": textOption(&path), "threads": countOption(&threads), "wait_lock": waitOption(&lock)}
	require.NoError(t, options("path=a%20b&threads=2&wait_lock=30s", readers))
	require.Equal(t, []any{"a b", 2, 30 * time.Second}, []any{path, threads, lock})
	require.NoError(t, options("wait_lock=0s", readers))
	require.Negative(t, lock, "0s must not be stored as 0, which means the default")
	require.NoError(t, options("", readers))
	for query, want := range map[string]string{
		"thread=2":     `unknown option "thread"`,
		"threads=0":    `threads "0": want a positive number`,
		"threads=many": `threads "many": want a positive number`,
		"wait_lock=30": `wait_lock "30": want a duration such as 30s`,
		"path=%zz":     "invalid options",
	} {
		require.ErrorContains(t, options(query, readers), want)
	}
}

// The options of a Postgres URL are split into penstock's own options and the server's. The server's options stay
// unchanged.
func TestSplitOptions(t *testing.T) {
	theirs, ours, err := splitOptions("sslmode=verify-full&json=jsonb&application_name=a%26b&wait=1m", "json", "wait")
	require.NoError(t, err)
	require.Equal(t, "application_name=a%26b&sslmode=verify-full", theirs)
	require.Equal(t, "json=jsonb&wait=1m", ours)
}

// An existing file keeps its old content until the new content is complete.
func TestWriteTo(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "out.csv")
	require.NoError(t, os.WriteFile(name, []byte("before"), 0o600))
	failed := os.ErrInvalid
	require.ErrorIs(t, (&app{}).writeTo(name, func(w io.Writer) error {
		_, err := w.Write([]byte("half"))
		require.NoError(t, err)
		return failed
	}), failed)
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "before", string(b))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "no temporary file may be left")
}

// A stream without max_columns gets the lowest column limit of the pipeline's destinations.
func TestColumnLimitOfDestinations(t *testing.T) {
	c, err := config.Parse([]byte(`version: 1
sources: {main: {app: {base_url: "https://app.example", auth: {token: t}}}}
destinations: {w: "duckdb:w.duckdb", p: "postgres://db.example/x", l: "parquet:lake", w2: "duckdb:w2.duckdb", p2: "postgres://db.example/y", l2: "parquet:lake2"}
pipelines:
  duckdb: {from: main, to: w, streams: &streams [h.x, h.y]}
  postgres: {from: main, to: p, streams: *streams}
  parquet: {from: main, to: l, streams: *streams}
  all: {from: main, to: [l2, w2, p2], streams: *streams}
streams: {h.x: {path: /x}, h.y: {path: /y, max_columns: 7}}
`), config.Input{File: "p.yaml", Env: os.LookupEnv, Schemes: []string{"duckdb", "postgres", "parquet"}})
	require.NoError(t, err)
	for name, want := range map[string]int{"duckdb": 500, "postgres": 400, "parquet": schemas.DefaultColumns, "all": 400} {
		p, ok := c.Pipeline(name)
		require.True(t, ok)
		streams, err := (&open.Opener{Kinds: destinationKinds()}).Choose(c, p, nil)
		require.NoError(t, err)
		require.Len(t, streams, 2)
		require.Equal(t, []int{want, 7}, []int{streams[0].MaxColumns, streams[1].MaxColumns}, name)
	}
}
