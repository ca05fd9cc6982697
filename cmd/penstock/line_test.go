package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/penstock-data/penstock"

// line lists, for each package, the packages of this module that it may import. The packages extract, transform and load
// never import each other. If a package is missing here, the test fails: decide what a new package may import, and add
// the package.
var line = map[string][]string{
	"schemas":                              nil,
	"state":                                nil,
	"state/retry":                          nil, // waits between attempts; used by all packages
	"state/plainerror":                     nil, // words for errors of Go's standard library; used by all packages
	"state/pgerror":                        nil, // errors of Postgres; used by the state and the destination
	"state/postgres":                       {"state", "state/pgerror", "state/retry"},
	"state/statetest":                      {"state"},
	"extract/wire":                         {"extract/wire/budget", "state", "state/plainerror", "state/retry"},
	"extract/wire/budget":                  {"state", "state/retry"},
	"extract/wire/wiretest":                nil,
	"extract":                              {"extract/jsondoc", "extract/paging", "extract/records", "extract/segments", "extract/wire", "schemas", "state", "state/retry"},
	"extract/jsondoc":                      nil,
	"extract/paging":                       {"extract/jsondoc", "extract/records", "extract/wire", "schemas"},
	"extract/records":                      {"extract/jsondoc", "schemas"},
	"extract/segments":                     nil, // plans requests, but does not send them
	"extract/sandbox":                      {"extract/sandbox/servers", "schemas"},
	"extract/sandbox/servers":              {"schemas"},
	"transform":                            {"schemas", "transform/jsonscan"},
	"transform/jsonscan":                   nil,
	"load":                                 {"schemas", "state"},
	"load/iceberg":                         {"load", "load/parquet", "schemas", "state", "state/retry"}, // load/parquet writes the data files of Iceberg tables
	"load/loadtest":                        {"load", "schemas", "state"},
	"load/duckdb":                          {"load", "load/sqlmerge", "schemas", "state", "state/retry"},
	"load/sqlmerge":                        {"load", "schemas", "state"},
	"load/mysql":                           {"load", "load/sqlmerge", "schemas", "state"},
	"load/mysql/mysqltest":                 nil,
	"load/sqlite":                          {"load", "load/sqlmerge", "schemas", "state", "state/retry"},
	"load/parquet":                         {"load", "load/parquet/encode", "load/parquet/objects", "load/parquet/partition", "load/parquet/positions", "load/parquet/values", "schemas", "state"},
	"load/parquet/encode":                  {"schemas"},
	"load/parquet/objects":                 {"state/retry"},
	"load/parquet/partition":               {"load", "schemas"},
	"load/parquet/positions":               nil,
	"load/parquet/values":                  {"load", "schemas"},
	"load/postgres":                        {"load", "load/postgres/codec", "load/sqlmerge", "schemas", "state", "state/pgerror", "state/retry"},
	"load/postgres/codec":                  {"load", "schemas"},
	"load/postgres/pgtest":                 nil,
	"cmd/internal/after":                   {"cmd/internal/pipeline", "state"},
	"cmd/internal/assistant":               {"cmd/internal/browse", "cmd/internal/config", "cmd/internal/failure", "cmd/internal/history", "cmd/internal/knowledge", "cmd/internal/open", "cmd/internal/pipeline", "cmd/internal/render", "cmd/internal/runlist", "cmd/internal/serve/access", "extract/wire", "load", "schemas", "state"},
	"cmd/internal/assistant/assistanttest": nil,
	"cmd/internal/browse":                  {"cmd/internal/config", "cmd/internal/failure", "cmd/internal/history", "cmd/internal/knowledge", "cmd/internal/open", "cmd/internal/pipeline", "cmd/internal/render", "cmd/internal/render/parquetfile", "extract/wire", "load", "schemas", "state"},
	"cmd/internal/knowledge":               {"cmd/internal/config", "cmd/internal/failure", "cmd/internal/history", "cmd/internal/open", "cmd/internal/pipeline", "cmd/internal/render", "extract", "load", "schemas", "state"},
	"cmd/internal/open":                    {"cmd/internal/after", "cmd/internal/config", "cmd/internal/failure", "cmd/internal/fleet/queue", "cmd/internal/fleet/sizing", "cmd/internal/history", "cmd/internal/pipeline", "cmd/internal/pipeline/overlay", "cmd/internal/render", "extract", "extract/wire", "extract/wire/budget", "load", "schemas", "state", "state/postgres", "state/retry"},
	"cmd/internal/render":                  {"cmd/internal/config", "cmd/internal/failure", "cmd/internal/fleet/sizing", "cmd/internal/pipeline", "cmd/internal/pipeline/checks", "cmd/internal/pipeline/drift", "cmd/internal/pipeline/forecast", "cmd/internal/verify", "extract", "extract/wire", "load", "schemas", "state", "state/plainerror", "transform"},
	"cmd/internal/render/parquetfile":      nil,
	"cmd/internal/runlist":                 {"cmd/internal/after", "cmd/internal/config", "cmd/internal/history", "cmd/internal/open", "cmd/internal/pipeline", "cmd/internal/render", "load", "schemas", "state"},
	"cmd/internal/setup":                   {"cmd/internal/check", "cmd/internal/config", "cmd/internal/failure", "cmd/internal/open", "cmd/internal/render", "schemas"},
	"cmd/internal/signature":               {"extract/wire", "state/plainerror"},
	"cmd/internal/config":                  {"cmd/internal/serve/schedule", "cmd/internal/signature", "extract/wire", "extract/wire/budget", "schemas", "state"},
	"cmd/internal/commandline":             {"cmd/internal/config", "cmd/internal/failure", "cmd/internal/open", "schemas", "state/plainerror"},
	"cmd/internal/check":                   {"cmd/internal/config", "cmd/internal/failure", "cmd/internal/history", "cmd/internal/open", "cmd/internal/pipeline", "cmd/internal/render", "extract/wire", "load", "schemas", "state", "state/plainerror", "state/postgres"},
	"cmd/internal/daemon":                  {"cmd/internal/assistant", "cmd/internal/browse", "cmd/internal/check", "cmd/internal/config", "cmd/internal/execute", "cmd/internal/failure", "cmd/internal/open", "cmd/internal/pipeline", "cmd/internal/serve", "cmd/internal/serve/access", "cmd/internal/serve/board", "cmd/internal/serve/facts", "cmd/internal/serve/receive", "cmd/internal/serve/signal", "cmd/internal/signature", "extract/wire", "load", "state"},
	"cmd/internal/dbt":                     {"cmd/internal/render", "load", "schemas"},
	"cmd/internal/failure":                 {"cmd/internal/config", "extract/wire", "state"},
	"cmd/internal/history":                 {"cmd/internal/pipeline", "cmd/internal/pipeline/checks", "cmd/internal/pipeline/cursor", "cmd/internal/pipeline/drift", "cmd/internal/pipeline/forecast", "cmd/internal/pipeline/runid", "cmd/internal/render", "load", "schemas", "state"},
	"cmd/internal/imports":                 {"schemas", "state/plainerror"},
	"cmd/internal/manifests":               nil, // a separate program; used by make manifests
	"cmd/internal/prose":                   nil, // a separate program; used by make prose
	"cmd/internal/release":                 nil, // a separate program; used by make release
	"cmd/internal/pipeline":                {"cmd/internal/pipeline/batch", "cmd/internal/pipeline/checks", "cmd/internal/pipeline/cursor", "cmd/internal/pipeline/drift", "cmd/internal/pipeline/files", "cmd/internal/pipeline/forecast", "cmd/internal/pipeline/overlay", "cmd/internal/pipeline/parents", "cmd/internal/pipeline/proof", "cmd/internal/pipeline/reject", "cmd/internal/pipeline/rowhash", "cmd/internal/pipeline/runid", "extract", "extract/records", "extract/wire", "load", "schemas", "state", "state/plainerror", "transform"},
	"cmd/internal/deltas":                  {"cmd/internal/pipeline", "cmd/internal/pipeline/batch", "cmd/internal/pipeline/cursor", "cmd/internal/pipeline/overlay", "cmd/internal/pipeline/reject", "cmd/internal/pipeline/rowhash", "cmd/internal/pipeline/runid", "extract", "extract/records", "extract/wire", "load", "schemas", "state", "state/retry", "transform"},
	"cmd/internal/pipeline/files":          {"cmd/internal/pipeline/rowhash", "extract", "load", "schemas"},
	"cmd/internal/pipeline/parents":        {"cmd/internal/pipeline/batch", "cmd/internal/pipeline/files", "cmd/internal/pipeline/rowhash", "extract", "load", "schemas", "transform"},
	"cmd/internal/pipeline/pipelinetest":   {"cmd/internal/pipeline", "cmd/internal/pipeline/sourcetest", "load", "load/loadtest", "schemas", "state"},
	"cmd/internal/rejects":                 {"cmd/internal/failure", "cmd/internal/pipeline", "cmd/internal/pipeline/batch", "cmd/internal/pipeline/cursor", "cmd/internal/pipeline/reject", "cmd/internal/pipeline/rowhash", "load", "schemas", "state", "transform"},
	"cmd/internal/verify":                  {"cmd/internal/failure", "cmd/internal/pipeline", "cmd/internal/pipeline/rowhash", "extract", "load", "schemas", "transform"},
	"cmd/internal/pipeline/batch":          {"cmd/internal/pipeline/rowhash", "schemas", "transform"},
	"cmd/internal/pipeline/checks":         {"load", "schemas", "state"},
	"cmd/internal/pipeline/cursor":         {"state"},
	"cmd/internal/pipeline/overlay":        {"cmd/internal/pipeline/batch", "cmd/internal/pipeline/cursor", "cmd/internal/pipeline/rowhash", "load", "schemas", "state", "transform"},
	"cmd/internal/pipeline/drift":          {"cmd/internal/pipeline/proof", "schemas", "transform/jsonscan"},
	"cmd/internal/pipeline/forecast":       {"schemas"},
	"cmd/internal/pipeline/rowhash":        {"schemas"},
	"cmd/internal/pipeline/proof":          nil, // computes a verdict from facts
	"cmd/internal/pipeline/reject":         {"cmd/internal/pipeline/rowhash", "cmd/internal/pipeline/runid", "load", "transform"},
	"cmd/internal/pipeline/runid":          nil,
	"cmd/internal/pipeline/sourcetest":     {"extract", "extract/sandbox", "extract/wire", "extract/wire/budget", "schemas", "state"},
	"cmd/penstock":                         {"*"},

	"cmd/internal/execute": {"cmd/internal/after", "cmd/internal/check", "cmd/internal/config", "cmd/internal/deltas", "cmd/internal/failure", "cmd/internal/fleet", "cmd/internal/fleet/queue", "cmd/internal/history", "cmd/internal/open", "cmd/internal/pipeline", "cmd/internal/pipeline/cursor", "cmd/internal/pipeline/forecast", "cmd/internal/pipeline/parents", "cmd/internal/pipeline/runid", "cmd/internal/render", "extract", "extract/wire", "load", "schemas", "state", "state/plainerror", "state/postgres", "state/retry"},

	"cmd/internal/fleet":        {"cmd/internal/pipeline", "extract/wire", "schemas", "state", "state/plainerror", "state/retry"},
	"cmd/internal/fleet/queue":  {"state"},
	"cmd/internal/fleet/sizing": {"extract/wire/budget"},

	"cmd/internal/serve":          {"cmd/internal/pipeline", "cmd/internal/pipeline/runid", "cmd/internal/serve/schedule", "extract", "schemas", "state", "state/retry"},
	"cmd/internal/serve/schedule": nil,
	"cmd/internal/serve/access":   {"cmd/internal/serve", "extract/wire"},
	"cmd/internal/serve/board":    {"cmd/internal/browse", "cmd/internal/knowledge", "cmd/internal/open", "cmd/internal/pipeline", "cmd/internal/serve/access", "state"},
	"cmd/internal/serve/facts":    {"cmd/internal/after", "cmd/internal/pipeline", "cmd/internal/pipeline/checks", "cmd/internal/pipeline/cursor", "cmd/internal/serve", "cmd/internal/serve/board", "load", "schemas", "state", "state/plainerror"},
	"cmd/internal/serve/receive":  {"cmd/internal/serve", "cmd/internal/serve/access", "cmd/internal/signature", "state"},
	"cmd/internal/serve/signal":   {"cmd/internal/pipeline", "cmd/internal/pipeline/checks", "cmd/internal/pipeline/drift", "cmd/internal/serve", "extract/wire", "state", "state/retry"},
}

// foreign lists the external imports that a package must not have.
var foreign = map[string][]string{
	"state/pgerror":               {"arrow-go", "net/http", "database/sql"},
	"state/retry":                 {"arrow-go", "net/http", "database/sql", "pgx"},
	"state":                       {"arrow-go", "net/http"},
	"extract":                     {"arrow-go", "database/sql"},
	"extract/jsondoc":             {"net/http", "go-yaml", "go-json-experiment"},
	"extract/paging":              {"go-yaml"},
	"extract/records":             {"net/http", "go-yaml"},
	"extract/wire":                {"arrow-go", "database/sql", "go-yaml"},
	"extract/wire/budget":         {"arrow-go", "database/sql", "go-yaml"},
	"transform":                   {"net/http", "database/sql", "duckdb-go", "go-yaml"},
	"transform/jsonscan":          {"arrow-go", "jsontext"},
	"load":                        {"net/http", "duckdb-go", "database/sql", "pgx"},
	"cmd/internal/deltas":         {"net/http", "go-yaml", "duckdb-go", "robfig/cron"},
	"cmd/internal/pipeline":       {"net/http", "go-yaml", "duckdb-go", "robfig/cron"},
	"cmd/internal/pipeline/proof": {"net/http", "arrow-go", "database/sql", "time", "os"},
	"cmd/internal/config":         {"net/http", "arrow-go"},
	"cmd/internal/fleet":          {"net/http", "arrow-go", "go-yaml", "database/sql"},
	"cmd/internal/setup":          {"net/http", "database/sql", "cobra", "arrow-go"},
	"cmd/internal/signature":      {"net/http", "arrow-go", "go-yaml", "os"},
	"cmd/internal/imports":        {"net/http", "arrow-go"},
	"cmd/internal/assistant":      {"database/sql", "cobra", "go-yaml"},
	"cmd/internal/check":          {"net/http", "database/sql", "cobra"},
	"cmd/internal/daemon":         {"database/sql", "cobra", "arrow-go"},
	"cmd/internal/failure":        {"net/http", "arrow-go", "go-yaml", "database/sql"},
	"cmd/internal/open":           {"net/http", "database/sql", "cobra"},            // and no driver of a destination, because package main passes the kinds of destinations as values
	"cmd/internal/render":         {"net/http", "database/sql", "cobra", "parquet"}, // all packages that print import it, and the library for Parquet makes a program 20 MB larger

	"cmd/internal/serve":          {"arrow-go", "go-yaml", "database/sql"},
	"cmd/internal/serve/schedule": {"net/http"},
	"cmd/internal/serve/board":    {"cmd/internal/browse", "cmd/internal/knowledge", "cmd/internal/open", "arrow-go", "go-yaml", "database/sql"},
	"cmd/internal/serve/receive":  {"arrow-go", "go-yaml", "database/sql"},
	"cmd/internal/serve/signal":   {"arrow-go", "go-yaml", "database/sql"},
}

func TestImportLine(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		allowed, known := line[name]
		require.True(t, known, "%s is missing in the variable line", name)
		for _, imp := range p.Imports {
			if ours, ok := strings.CutPrefix(imp, module+"/"); ok {
				require.True(t, slices.Contains(allowed, "*") || slices.Contains(allowed, ours),
					"%s imports %s, which the variable line does not allow", name, ours)
			}
			for _, no := range foreign[name] {
				require.False(t, imp == no || strings.Contains(imp, "/"+no+"/") || path.Base(imp) == no,
					"%s imports %s", name, imp)
			}
		}
	}
}

type listed struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-tags", "duckdb_arrow", "-json=ImportPath,Imports", module+"/...").Output()
	require.NoError(t, err)
	var ps []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return ps
		}
		require.NoError(t, err)
		ps = append(ps, p)
	}
}
