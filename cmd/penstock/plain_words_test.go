package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
)

// goWords matches words of Go, of its standard library and of its modules that users do not know.
var goWords = regexp.MustCompile(`%!|<nil>|end token|strconv|\bdial |\blookup |(^|\s)(json|yaml|tls|x509|time): |\bEOF\b|context (deadline|canceled)|\btcp\b|i/o timeout|unmarshal|openapi3|\*[a-z]+\.[A-Z]|arg\(s\)|invalid argument|shorthand`)

// wrongFiles are files with errors.
var wrongFiles = map[string]string{
	"bad.json": `{`, "bad.yaml": "a: [b\n", "text.txt": "x", "list.json": `["a"]`, "swagger.json": `{"swagger": "2.0"}`, "openapi.json": `{"openapi": 3}`,
	"config.yaml": `version: 1
sources: {main: {app: {base_url: "http://127.0.0.1:1", auth: {token: t}}}}
destinations:
  file: "duckdb:warehouse.duckdb"
  nowhere: "sqlite:nowhere/x.db"
  folder: "sqlite:folder"
  nofile: "sqlite:bad.yaml"
  pg: "postgres://user:password@127.0.0.1:1/db?wait=1s"
  mysql: "mysql://user:password@127.0.0.1:1/db"
  lake: "parquet:text.txt/lake"
pipelines: {all: {from: main, to: nowhere, streams: [crm.leads]}}
state: state
`,
}

// wrongLines are command lines with errors. They run in a folder with wrongFiles.
const wrongLines = `
sync --frobnicate
sync -x
sync one two
sync al
sync -c folder
sync -c nowhere.yaml
sync -c text.txt
sync -c bad.yaml
sync -c bad.json
sync --stream [
sync --stream crm.leeds
sync
check
check nowhere
preview crm.leads
preview crm.leads -n abc
preview crm.leads -n 99999999999999999999
preview
explain
explain nosuch
discover crm.leads
verify
verify --stream nosuch
plan --deadline 5x
plan --fleet --workspaces 1e9
plan --fleet --records -1
backfill --from yesterday
backfill --to 2025-13-45
serve --slots x
worker --slots x
query
query --to
query --to pg SELECT
query --to mysql SELECT
query --to nowhere SELECT
query --to folder SELECT
query --to nofile SELECT
query --to lake SELECT
query --to nosuch SELECT
query --to file --format xml SELECT
query --to nofile -o folder SELECT
rejects --to nofile
rejects list --to nowhere
rejects retry --stream [
rejects accept nosuch
maintain nosuch
maintain --source nosuch
status --to mysql
status --health
runs --to mysql
runs diff a
runs diff b a --table x
runs units nosuch
runs cancel No-Run
docs --format xml
docs --to pg
docs --to nofile -o text.txt/
views --to mysql
views one
schema show
schema show nosuch --to nofile
path nosuch --to nofile
state show --to mysql
state set crm.leads {
state reset --to nofile --stream crm.leads --yes
state backup text.txt/backup
state restore nowhere
state restore bad.json
state import nowhere --to nofile
state import bad.json --to nofile
sources list --source [
sources pause nosuch
sources add
webhooks list --to x
webhooks replay abc
webhooks replay --to x
webhooks learn nosuch
login nosuch
logout nosuch
migrate now
import openapi nowhere.json
import openapi folder
import openapi bad.json
import openapi bad.yaml
import openapi text.txt
import openapi list.json
import openapi swagger.json
import openapi openapi.json
import postman bad.json
import postman bad.yaml
import postman list.json
import frob bad.json
import openapi bad.json --only [
sandbox --listen 127.0.0.1:99999
sandbox --listen nosuch.invalid:80
sandbox --latency 5x
sandbox --contacts x
sandbox --app-rate fast
sandbox --faults nowhere.json
sandbox --faults bad.json
sandbox demo --dir text.txt
streams --module nosuch
version now
frobnicate
init --v2-url ftp://x --no-check -c new.yaml
init --v2-url http://127.0.0.1:1 --no-check --to nothing:x -c new.yaml
ui --to nosuch
ui --to nothing:here
mcp --to x y
state export --to mysql
state own --to file
state adopt --to nofile
schema accept nosuch --to nofile
schema config x
sources resume nosuch
completion nosuch
help nosuch
`

// usageErrors matches what is said about errors of the command line or the configuration. Their exit code is 2.
var usageErrors = regexp.MustCompile(`^penstock: (--|unknown flag|no (command|pipeline|stream|module)|` + "`penstock [a-z ]+` takes" + `|[a-z]+\.(yaml|json):\d+)`)

// TestPlainWords calls each command with wrong input. Every call fails, and reports the error in words that a user of
// the command line knows.
func TestPlainWords(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("folder", 0o700))
	for name, text := range wrongFiles {
		require.NoError(t, os.WriteFile(filepath.Clean(name), []byte(text), 0o600))
	}
	for line := range strings.Lines(strings.TrimSpace(wrongLines)) {
		args := strings.Fields(line)
		if !strings.Contains(line, "-c ") {
			args = append(args, "-c", "config.yaml")
		}
		t.Run(strings.TrimSpace(line), func(t *testing.T) {
			var out, errs bytes.Buffer
			code := runCommand(t.Context(), args, &out, &errs)
			require.NotEqual(t, failure.ExitDone, code, "%s%s", out.String(), errs.String())
			said := out.String() + errs.String()
			require.NotEmpty(t, said)
			require.NotRegexp(t, goWords, said)
			require.NotContains(t, said, "\x1b", "no colors, because this is no terminal")
			require.Contains(t, []int{failure.ExitFailed, failure.ExitUsage, failure.ExitPartial}, code)
			if usageErrors.MatchString(said) {
				require.Equal(t, failure.ExitUsage, code, said)
			}
		})
	}
}

// TestPlainWordsOfEveryVerb checks that wrongLines has a line for every command.
func TestPlainWordsOfEveryVerb(t *testing.T) {
	t.Parallel()
	a := &app{out: io.Discard, err: io.Discard}
	eachVerb(a.root(), func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), "penstock ")
		if c.Runnable() && c.Name() != "help" && !c.Hidden {
			require.True(t, strings.Contains(wrongLines, "\n"+path+" ") || strings.Contains(wrongLines, "\n"+path+"\n"), path)
		}
	})
}
