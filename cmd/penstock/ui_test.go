//go:build cgo && duckdb_arrow && unix

package main

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// uiVisitor is a browser without scripts that has opened the link of `penstock ui`.
type uiVisitor struct {
	t      *testing.T
	client http.Client
	base   string
	link   string
	mark   string // the CSRF token of its forms
}

// ui starts `penstock ui`, and opens its link.
func (r *assistantRig) ui(args ...string) *uiVisitor {
	r.t.Helper()
	c, said := r.command(append([]string{"ui"}, args...)...), &spoken{}
	c.Stdout, c.Stderr = said, said
	require.NoError(r.t, c.Start())
	r.t.Cleanup(func() {
		require.NoError(r.t, c.Process.Signal(syscall.SIGTERM))
		_ = c.Wait()
	})
	at := regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/\S+`)
	require.Eventually(r.t, func() bool { return at.MatchString(said.String()) }, time.Minute, 10*time.Millisecond, said)
	v := &uiVisitor{t: r.t, link: at.FindString(said.String()), base: at.FindStringSubmatch(said.String())[1]}
	jar, err := cookiejar.New(nil)
	require.NoError(r.t, err)
	v.client.Jar = jar
	return v
}

// opened opens the link, and returns the page that the link leads to.
func (v *uiVisitor) opened() string {
	v.t.Helper()
	to := regexp.MustCompile(`href="(/data)">Continue`).FindStringSubmatch(v.get(v.link))
	require.NotNil(v.t, to)
	return v.get(v.base + to[1])
}

// get returns a page.
func (v *uiVisitor) get(address string) string {
	v.t.Helper()
	resp, err := v.client.Get(address)
	require.NoError(v.t, err)
	return v.body(resp)
}

func (v *uiVisitor) body(resp *http.Response) string {
	text, err := io.ReadAll(resp.Body)
	require.NoError(v.t, err)
	require.NoError(v.t, resp.Body.Close())
	require.Equal(v.t, http.StatusOK, resp.StatusCode, "%s", text)
	return string(text)
}

// query sends the form of the SQL editor.
func (v *uiVisitor) query(destination, sql string, more ...string) string {
	v.t.Helper()
	address := v.base + "/data/" + destination + "/query"
	if v.mark == "" {
		v.mark = regexp.MustCompile(`name="mark" value="([^"]+)"`).FindStringSubmatch(v.get(address))[1]
	}
	form := url.Values{"sql": {sql}, "mark": {v.mark}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	resp, err := v.client.PostForm(address, form)
	require.NoError(v.t, err)
	return v.body(resp)
}

// attacked sends statements that must not run.
func (v *uiVisitor) attacked(destination string, more ...string) {
	v.t.Helper()
	for _, sql := range append(more, attacks...) {
		for _, format := range []string{"", "csv"} {
			require.Contains(v.t, v.query(destination, sql, "format", format), `role="alert"`, sql)
		}
	}
}

// The UI shows tables, statistics, rows and the results of queries, and changes no file. It needs no credential of a
// source, and its link works once.
func TestUIDuckDB(t *testing.T) {
	t.Parallel()
	r := newAssistantRig(t, "duckdb:w.duckdb?block_size=16384")
	before := r.contents()
	v := r.ui("--no-open")
	require.Contains(t, v.opened(), "/data/warehouse/tables/crm_leads")
	stranger := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := stranger.Get(v.link)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.False(t, strings.HasPrefix(resp.Cookies()[0].Name, "penstock_session"), "the link signs in a second browser")

	table := v.get(v.base + "/data/warehouse/tables/crm_leads?column=id&op=is&value=1")
	for _, want := range []string{"proven", "Statistics from", "mask: hmac", "<svg", "<code>email</code>"} {
		require.Contains(t, table, want)
	}
	require.Contains(t, v.get(v.base+"/data/warehouse/tables/crm_leads?column=id&op=is&value=1+OR+1"), "is not a number")
	require.NotContains(t, v.get(v.base+"/data/warehouse/tables/crm_leads?column=name&op=is&value="+url.QueryEscape("x' OR 'a'='a")), `<td class="cell">`)
	require.Contains(t, v.query("warehouse", "SELECT stage_id, count(*) AS n FROM crm_leads GROUP BY 1 ORDER BY 1"), "<figure")
	require.NotContains(t, v.query("warehouse", "SELECT * FROM (SELECT id FROM crm_leads TABLESAMPLE system(50.0000%)) AS chosen ORDER BY random() LIMIT 10"), `role="alert"`, "large tables are sampled in this way")
	require.True(t, strings.HasPrefix(v.query("warehouse", "SELECT 1 AS a, 'x' AS b", "format", "csv"), "a,b\n1,x\n"))
	require.True(t, strings.HasPrefix(v.query("warehouse", "SELECT 1 AS a", "format", "parquet"), "PAR1"))
	require.NotContains(t, v.query("warehouse", "SELECT email FROM crm_leads", "format", "csv"), "@", "a mask holds")
	v.attacked("warehouse", duckdbAttacks(filepath.Join(r.dir, defaultConfig))...)
	require.Contains(t, v.get(v.base+"/audit"), "DROP TABLE crm_leads")
	require.Equal(t, before, r.contents())

	alone := (&assistantRig{t, t.TempDir()}).ui("--no-open", "--to", "duckdb:"+filepath.Join(r.dir, "w.duckdb"))
	require.Contains(t, alone.opened(), "/data/w/tables/crm_leads")
	require.Contains(t, alone.query("w", "SELECT 41 + 1"), "42")
	require.Equal(t, before, r.contents())
}

func TestUIPostgres(t *testing.T) {
	t.Parallel()
	target := newPostgresTarget(t)
	r := newAssistantRig(t, target.url())
	v := r.ui("--no-open")
	require.Contains(t, v.opened(), "Rows, estimated")
	table := v.get(v.base + "/data/warehouse/tables/crm_leads?column=name&op=contains&value=a")
	require.Contains(t, table, "Statistics from")
	require.NotContains(t, table, `role="alert"`)
	for _, sql := range []string{"SELECT count(*) FROM crm_leads", "SELECT * FROM (SELECT id FROM crm_leads TABLESAMPLE SYSTEM (50.0000)) AS chosen ORDER BY pg_catalog.random() LIMIT 10"} { // large tables are sampled in this way
		require.NotContains(t, v.query("warehouse", sql), `role="alert"`, sql)
	}
	v.attacked("warehouse", postgresAttacks...)
	var n int
	require.NoError(t, target.connect(t).QueryRow(t.Context(), "SELECT count(*) FROM crm_leads").Scan(&n))
	require.Positive(t, n)
}

// A program that opens links is started with a file that only this user can read. The link is in the file, and not in
// the arguments of the program. // Invariant 5
func TestUIOpensPrivately(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("the program is xdg-open only on systems other than macOS")
	}
	dir, programs := t.TempDir(), t.TempDir()
	args := filepath.Join(programs, "args")
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\" > '" + args + ".new' && mv '" + args + ".new' '" + args + "'\n"
	require.NoError(t, os.WriteFile(filepath.Join(programs, "xdg-open"), []byte(script), 0o700))
	t.Setenv("PATH", programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	const link = "http://127.0.0.1:1234/open?key=secret&x=1"
	require.NoError(t, openPrivately(t.Context(), dir, link))
	var given []byte
	require.Eventually(t, func() bool {
		var err error
		given, err = os.ReadFile(args)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	page := filepath.Join(dir, "open.html")
	require.Equal(t, page+"\n", string(given))
	info, err := os.Stat(page)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	to := regexp.MustCompile(`<meta http-equiv="refresh" content="0; url=([^"]+)">`).FindStringSubmatch(string(text))
	require.NotNil(t, to, "%s", text)
	require.Equal(t, link, html.UnescapeString(to[1]))
}
