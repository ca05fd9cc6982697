//go:build cgo && duckdb_arrow

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
)

// told() runs a command with --json. The command must succeed. told() returns the lines that the command prints.
func (w *worlds) told(t *testing.T, args ...string) (lines []map[string]any) {
	t.Helper()
	code, out, errs := w.penstock(t, append(args, "--json")...)
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	for line := range strings.Lines(out) {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
		lines = append(lines, l)
	}
	return lines
}

// cursors returns the cursors of the destination, by source and stream.
func (w *worlds) cursors(t *testing.T, args ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, l := range w.told(t, append([]string{"state", "export"}, args...)...) {
		source, _ := l["source"].(string)
		all[source+" "+l["stream"].(string)] = l["cursor"].(string)
	}
	return all
}

// TestVerbsOfManySources: if several sources share tables, each command can select one source. This also works if two
// sources have records with the same ids.
func TestVerbsOfManySources(t *testing.T) {
	if testing.Short() {
		testVerbsOfManySources(t, parquetTarget{t.TempDir()})
		return
	}
	onEach(t, testVerbsOfManySources)
}

func testVerbsOfManySources(t *testing.T, to target) {
	w := newWorlds(t, 4) // ws003 has the records of ws000
	w.configure(t, `"`+to.url()+`"`, `"*"`, `["crm.leads", "sales.invoices"]`)
	run := w.told(t, "sync")[0]["run"].(string)

	// With --source, commands print only the runs, certificates and rows of that source.
	all := w.told(t, "runs")
	require.Len(t, all, 1, "one row for each run")
	require.Equal(t, "4 of 4 complete", all[0]["sources"])
	one := w.told(t, "runs", "--source", "ws001")
	require.Len(t, one, 1)
	require.NotContains(t, one[0], "source")
	seen := map[any]int{}
	for _, l := range w.told(t, "runs", run) {
		seen[l["source"]]++
	}
	for _, name := range w.made {
		require.GreaterOrEqual(t, seen[name], 3, "runs must print a run and two certificates of this source")
		status := w.told(t, "status", "--source", name)
		require.Len(t, status, 2)
		require.EqualValues(t, len(w.truth(t, name, "crm.leads")), status[0]["fetched"])
	}
	require.Len(t, w.told(t, "status", "--to", "warehouse@ws002"), 2)

	// Some commands always apply to all sources, and others need exactly one source. The hints of the errors say how many sources a command applies to.
	for hint, args := range map[string][]string{
		"WHERE _penstock_source = 'ws001'":    {"query", "--source", "ws001", "FROM crm_leads"},
		"omit --source":                       {"views", "--source", "ws001"},
		"applies to all sources of the table": {"schema", "accept", "--source", "ws001", "crm_leads"},
		"choose one with --source NAME":       {"state", "reset", "--stream", "*", "--yes"},
		"sources list` lists them":            {"runs", "diff", run, run, "--table", "crm_leads"},
		"contradict each other":               {"status", "--to", "warehouse@ws001", "--source", "ws002"},
		"no source \"nobody\"":                {"status", "--source", "nobody"},
	} {
		code, out, errs := w.penstock(t, args...)
		require.Equal(t, failure.ExitUsage, code, "%v: %s", args, out)
		require.Contains(t, errs, hint)
	}

	// The cursors of one source are reset and restored. The cursors of the other sources do not change.
	before := w.cursors(t)
	require.Len(t, before, 8)
	require.Len(t, w.cursors(t, "--source", "ws002"), 2)
	w.told(t, "state", "reset", "--source", "ws001", "--stream", "crm.leads", "--yes")
	after := w.cursors(t)
	require.Empty(t, after["ws001 crm.leads"])
	for key, cursor := range before {
		if key != "ws001 crm.leads" {
			require.Equal(t, cursor, after[key], key)
		}
	}
	backups, err := filepath.Glob(w.dir + "/state/backups/*.jsonl")
	require.NoError(t, err)
	require.Len(t, backups, 1)
	w.told(t, "state", "import", backups[0], "--yes")
	require.Equal(t, before, w.cursors(t))
	alone := filepath.Join(w.dir, "alone.jsonl")
	require.NoError(t, os.WriteFile(alone, []byte(`{"pipeline":"all","stream":"crm.leads","cursor":""}`), 0o600))
	code, _, errs := w.penstock(t, "state", "import", alone, "--yes")
	require.Equal(t, failure.ExitUsage, code)
	require.Contains(t, errs, "names no source")
	if scheme := strings.SplitN(to.url(), ":", 2)[0]; scheme != "sqlite" && scheme != "mysql" {
		w.dbtHolds(t)
	} else {
		code, _, errs := w.penstock(t, "docs", "--format", "dbt", "-o", t.TempDir())
		require.Equal(t, failure.ExitUsage, code)
		require.Contains(t, errs, "--format dbt writes projects for DuckDB, Postgres and Parquet")
	}
	for _, args := range [][]string{{"verify", "--source", "ws003"}, {"rejects", "retry", "--source", "ws003"}, {"rejects", "list", "--source", "ws003"}, {"docs", "--source", "ws003"}} {
		code, out, errs := w.penstock(t, args...)
		require.Equal(t, failure.ExitDone, code, "%v: %s\n%s", args, out, errs)
	}
}

// dbtHolds runs the queries that dbt would run for the generated tests. In these tests, the first part of each key is
// the source.
func (w *worlds) dbtHolds(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	code, _, errs := w.penstock(t, "docs", "--format", "dbt", "-o", folder)
	require.Equal(t, failure.ExitDone, code, errs)
	names, err := filepath.Glob(filepath.Join(folder, "models/staging/*/_*__sources.yml"))
	require.NoError(t, err)
	asked := 0
	for _, name := range names {
		asked += w.sourcesHold(t, name)
	}
	require.GreaterOrEqual(t, asked, 3, "want tests of two keys and a test of a reference to a parent")
}

// sourcesHold runs the queries of the tests in a file of dbt sources, and returns their number.
func (w *worlds) sourcesHold(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	var file struct {
		Sources []struct {
			Tables []struct {
				Name    string
				Tests   []map[string]struct{ Arguments map[string]any } `yaml:"data_tests"`
				Columns []struct {
					Name  string
					Tests []any `yaml:"data_tests"`
				}
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &file), string(text))
	asked := 0
	for _, table := range file.Sources[0].Tables {
		for _, c := range table.Columns {
			require.NotContains(t, c.Tests, "unique", "%s.%s", table.Name, c.Name)
		}
		for _, test := range table.Tests {
			var sql string
			if u, ok := test["unique"]; ok {
				sql = fmt.Sprintf("SELECT count(*) AS n FROM (SELECT %[1]s AS v FROM %[2]s WHERE %[1]s IS NOT NULL GROUP BY %[1]s HAVING count(*) > 1) t", u.Arguments["column_name"], table.Name)
			} else if r, ok := test["relationships"]; ok {
				parent := strings.Split(r.Arguments["to"].(string), "'")[3]
				sql = fmt.Sprintf("SELECT count(*) AS n FROM (SELECT %[1]s AS v FROM %[2]s) c LEFT JOIN (SELECT %[3]s AS w FROM %[4]s) p ON v = w WHERE w IS NULL",
					r.Arguments["column_name"], table.Name, r.Arguments["field"], parent)
			} else {
				continue
			}
			asked++
			require.EqualValues(t, 0, w.told(t, "query", sql)[0]["n"], "%s %v", table.Name, test)
		}
	}
	return asked
}

// TestVerbsOfSeparateSources: if each source has a separate destination, commands can select one source.
func TestVerbsOfSeparateSources(t *testing.T) {
	w := newWorlds(t, 2)
	w.configure(t, `"duckdb:`+w.dir+`/{source}.duckdb"`, `"*"`, `["crm.lead_stages"]`)
	w.told(t, "sync")
	other := w.cursors(t, "--source", "ws000")
	require.Equal(t, w.cursors(t, "--to", "warehouse@ws001"), w.cursors(t, "--source", "ws001"))
	w.told(t, "state", "reset", "--source", "ws001", "--stream", "*", "--yes")
	require.Equal(t, map[string]string{" crm.lead_stages": ""}, w.cursors(t, "--source", "ws001"))
	require.Equal(t, other, w.cursors(t, "--source", "ws000"))
	require.Len(t, w.told(t, "query", "--source", "ws001", "SELECT count(*) AS n FROM crm_lead_stages"), 1)
}

// TestBrokenDestination: one of three destinations is broken, and another is still empty. Commands that show all
// destinations print what they can read. Then they fail with an error about the broken destination only.
func TestBrokenDestination(t *testing.T) {
	w := newWorlds(t, 1)
	w.configure(t, `"sqlite://`+w.dir+`/good.db"`, "ws000", `["crm.leads"]`)
	run := w.told(t, "sync")[0]["run"].(string)
	text, err := os.ReadFile(w.config())
	require.NoError(t, err)
	add := func(more string) {
		changed := strings.Replace(string(text), "destinations: {", "destinations: {"+more, 1)
		require.NoError(t, os.WriteFile(w.config(), []byte(changed), 0o600))
	}
	verbs := [][]string{{"runs"}, {"runs", run}, {"status"}}
	add(`empty: "sqlite://` + w.dir + `/empty.db", `)
	for _, verb := range verbs {
		w.told(t, verb...)
	}
	require.NoError(t, os.WriteFile(w.dir+"/broken.db", []byte(strings.Repeat("no database ", 1000)), 0o600))
	add(`broken: "sqlite://` + w.dir + `/broken.db", empty: "sqlite://` + w.dir + `/empty.db", `)
	for _, verb := range verbs {
		code, out, errs := w.penstock(t, append(verb, "--json")...)
		require.Equal(t, failure.ExitFailed, code, "%v: %s", verb, errs)
		require.Contains(t, out, run, verb)
		require.Contains(t, errs, "cannot read destination", verb)
		require.NotContains(t, errs, "empty.db", verb)
	}
}
