package board_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/browse"
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/serve/access"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlite"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

const dataConfig = `version: 1
sources: {main: {app: {base_url: "https://app.example", auth: {token: "${cmd:no-such-program token}"}}}}
destinations: {warehouse: "sqlite:DIR/w.db", empty: "sqlite:DIR/empty.db"}
pipelines: {nightly: {from: main, to: [warehouse, empty], streams: [crm.leads]}}
state: "DIR/state"
`

// leadTable has the table of a stream with 300 rows.
func leadTable(t *testing.T, d load.Destination, name func(int) string) {
	t.Helper()
	leads := schemas.Table{Name: "crm_leads", Mode: schemas.Merge, Key: []string{"id"}, Columns: arrow.NewSchema([]arrow.Field{
		schemas.WithDescription(schemas.Field("id", schemas.Int64, "/id"), "number of the "+name(0)),
		schemas.Field("name", schemas.Text, "/name"), schemas.Field("amount", schemas.Float64, "/amount"),
		schemas.Field("since", schemas.Timestamp, "/since"), schemas.Field("open", schemas.Bool, "/open"), schemas.Field("notes", schemas.JSON, "/notes"),
	}, nil)}
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rows := make([][]any, 300)
	for i := range rows {
		rows[i] = []any{int64(i), name(i), float64(i) / 4, began.Add(time.Duration(i) * time.Hour), i%3 == 0, fmt.Sprintf(`{"v":%q}`, name(i))}
		if i%5 == 0 {
			rows[i][2] = nil
		}
	}
	k := state.Key{Pipeline: "nightly", Stream: "crm.leads"}
	require.NoError(t, load.CommitRows(t.Context(), d, k, "", "1", load.Pass{Run: "r1", Whole: true}, leads, rows...))
	certificate := []any{"r1", "nightly", "crm.leads", began, "proven", `{"why":"the total equals the ` + strings.Trim(fmt.Sprintf("%q", name(1)), `"`) + `"}`}
	for range 9 {
		certificate = append(certificate, int64(0))
	}
	require.NoError(t, load.CommitRows(t.Context(), d, state.Key{Pipeline: "nightly", Stream: "_penstock_certificates"}, "", "1", load.Pass{Run: "r1", Whole: true}, load.Certificates, certificate))
}

// dataBoard returns a board whose visitor has a role, over a file with a table.
func dataBoard(t *testing.T, role access.Role, name func(int) string) (s *served, link string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "pipelines.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(dataConfig, "DIR", dir)), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "queries"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "queries", "open leads.sql"), []byte("SELECT count(*) FROM crm_leads WHERE open"), 0o644))
	d, err := sqlite.Open(sqlite.Options{Path: filepath.Join(dir, "w.db")})
	require.NoError(t, err)
	leadTable(t, d, name)
	require.NoError(t, d.Close())
	s = &served{}
	kind := open.Kind{
		Scheme: "sqlite",
		Open: func(_ context.Context, _ *open.Opener, d config.Destination) (load.Destination, error) {
			s.opened.Add(1)
			path, _ := open.FilePath(d)
			return sqlite.Open(sqlite.Options{Path: path})
		},
		Absent: func(d config.Destination) error {
			path, _ := open.FilePath(d)
			_, err := os.Stat(path)
			return err
		},
	}
	o := &open.Opener{File: file, Kinds: []open.Kind{kind}, Log: slog.New(slog.DiscardHandler), ReadOnly: true, Pool: open.NewDestinationPool()}
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	guard := access.New(access.Options{})
	if role != "" {
		guard.Define([]access.Token{{Name: "you", Secret: wire.Secret("token-of-the-test"), Role: role}})
	}
	f := telling(2, plain)
	s.facts, s.feed = f, &board.Feed{}
	s.board, err = board.New(board.Config{Facts: f, Control: control{f}, Data: &browse.Browser{Opener: o}, Feed: s.feed, Access: guard, Record: f.record, Version: "1.2.3"})
	require.NoError(t, err)
	s.Server = httptest.NewServer(s.board)
	t.Cleanup(func() { s.board.Close(); s.Server.Close() })
	who, _ := guard.Named("you")
	return s, s.URL + s.board.Link(who, "/data")
}

func leadName(i int) string { return []string{"Ada", "Grace", "Edsger", "Barbara"}[i%4] }

const (
	tableOf = "/data/warehouse/tables/crm_leads"
	editor  = "/data/warehouse/query"
)

// The pages look right in both schemes, on a phone and on a large screen, and the editor runs under the security policy.
func TestDataLooks(t *testing.T) {
	s, link := dataBoard(t, access.Query, leadName)
	v := tab(t)
	v.signIn(t, link)
	s.lookAround(t, v, "data", []string{"/data", "/data/empty", tableOf, tableOf + "?column=name&op=is&value=Ada", editor + "?saved=open+leads", editor + "?sql=" + escape("SELECT 1")},
		allLooks()...)
	for _, l := range []looks{allLooks()[0], allLooks()[3]} {
		v.look(t, l)
		v.run(t, chromedp.Navigate(s.URL+editor+"?sql="+escape("SELECT name, count(*) AS n FROM crm_leads GROUP BY 1")))
		v.sees(t, `!!document.querySelector("form.sql > div").shadowRoot?.querySelector(".cm-content")`)
		v.clicks(t, "form.sql button", "#h-result")
		v.sees(t, `!!document.querySelector("form.sql > div").shadowRoot?.querySelector(".cm-content")`)
		v.picture(t, "sql-result-"+l.name)
		v.sees(t, `document.querySelectorAll(".rows tbody tr").length === 4`)
		require.True(t, eval[bool](t, v, `!!document.querySelector(".chart .bars")`))
		require.Empty(t, eval[[]string](t, v, flaws))
	}
	complaints, _ := v.heard()
	require.Empty(t, complaints)
}

// signIn opens a link, and waits until the page that it leads to has loaded. Otherwise the next navigation would take
// the load event of this page for its own. A script cannot wait, because each page ends it.
func (v *visitor) signIn(t *testing.T, link string) {
	t.Helper()
	v.run(t, chromedp.Navigate(link))
	require.Eventually(t, func() bool {
		ctx, stop := context.WithTimeout(v.ctx, 10*time.Second)
		defer stop()
		there, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`location.pathname === "/data" && performance.getEntriesByType("navigation")[0].loadEventEnd > 0`))
		return err == nil && there
	}, 2*time.Minute, 50*time.Millisecond)
}

// A file that leads to a link signs in, although the browser takes the file for another site.
func TestLinkInAFile(t *testing.T) {
	s, link := dataBoard(t, access.Query, leadName)
	file := filepath.Join(t.TempDir(), "open.html")
	require.NoError(t, os.WriteFile(file, []byte(`<meta http-equiv="refresh" content="0; url=`+html.EscapeString(link)+`">`), 0o600))
	v := tab(t)
	v.signIn(t, "file://"+file)
	require.Equal(t, s.URL, eval[string](t, v, `location.origin`))
	require.True(t, eval[bool](t, v, `!!document.querySelector("a[href*='/data/warehouse']")`))
}

// Names of columns complete in the editor.
func TestEditorCompletes(t *testing.T) {
	s, link := dataBoard(t, access.Query, leadName)
	v := tab(t)
	v.signIn(t, link)
	v.run(t, chromedp.Navigate(s.URL+editor))
	const content = `document.querySelector("form.sql > div").shadowRoot.querySelector(".cm-content")`
	v.sees(t, `!!document.querySelector("form.sql > div")?.shadowRoot?.querySelector(".cm-content")`)
	v.run(t, chromedp.Evaluate[chromedp.Void](content+`.focus()`))
	v.run(t, chromedp.KeyEvent("SELECT * FROM crm_l"))
	v.sees(t, `[...document.querySelector("form.sql > div").shadowRoot.querySelectorAll(".cm-completionLabel")].some((e) => e.textContent === "crm_leads")`)
}

// No text of a table runs as a script, and no page has markup from it.
func TestDataOfStrangers(t *testing.T) {
	all := payloads()
	s, link := dataBoard(t, access.Query, func(i int) string { return strings.ToValidUTF8(strings.ReplaceAll(all[i%len(all)], "\x00", ""), "") })
	v := tab(t)
	v.run(t, call(page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true}), call(runtime.AddBinding, runtime.AddBindingParams{Name: "ran"}))
	v.signIn(t, link)
	bad := escape(`"><img src=x onerror=ran('q')>`)
	for _, path := range []string{"/data", tableOf, tableOf + "?column=name&op=contains&value=" + bad, tableOf + "?column=" + bad + "&op=is&value=", editor + "?sql=" + bad, "/data/" + bad, "/data/warehouse/tables/" + bad} {
		v.run(t, chromedp.Navigate(s.URL+path))
		require.Empty(t, eval[[]string](t, v, odd), path)
	}
	v.run(t, chromedp.Navigate(s.URL+editor+"?sql="+escape("SELECT name, id, notes FROM crm_leads")))
	v.clicks(t, "form.sql button", "#h-result")
	v.sees(t, `document.querySelectorAll(".rows tbody tr").length === 200`)
	require.Empty(t, eval[[]string](t, v, strings.ReplaceAll(odd, `document.querySelectorAll("*")`, `document.querySelectorAll("main section *")`)))
	_, executed := v.heard()
	require.Empty(t, executed)
}

// formClient is a browser without scripts.
type formClient struct {
	t *testing.T
	s *served
	http.Client
	cookies []*http.Cookie
	mark    string
}

func (s *served) formClient(t *testing.T, link string) *formClient {
	t.Helper()
	c := &formClient{t: t, s: s, Client: http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if link != "" {
		resp, err := c.Get(link)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		c.cookies = resp.Cookies()
	}
	return c
}

func (c *formClient) send(method, path string, form url.Values) (int, string) {
	c.t.Helper()
	r, err := http.NewRequest(method, c.s.URL+path, strings.NewReader(form.Encode()))
	require.NoError(c.t, err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, k := range c.cookies {
		r.AddCookie(k)
	}
	resp, err := c.Do(r)
	require.NoError(c.t, err)
	defer resp.Body.Close()
	c.cookies = append(c.cookies, resp.Cookies()...)
	text, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	if m := regexp.MustCompile(`name="mark" value="([^"]+)"`).FindStringSubmatch(string(text)); m != nil {
		c.mark = m[1]
	}
	return resp.StatusCode, string(text)
}

// The role decides who sees rows: in tables, in statistics, and as results of queries. Each read is in the audit log.
func TestDataRoles(t *testing.T) {
	for _, role := range []access.Role{"", access.Read, access.Query, access.Operate} {
		s, link := dataBoard(t, role, leadName)
		if role == "" {
			link = ""
		}
		c := s.formClient(t, link)
		may := role == access.Query || role == access.Operate
		_, text := c.send("GET", "/data", nil)
		require.Contains(t, text, "proven")
		_, text = c.send("GET", tableOf, nil)
		require.Contains(t, text, "<code>amount</code>")
		require.Equal(t, may, strings.Contains(text, "Barbara"), role)
		require.Equal(t, may, strings.Contains(text, "74.75"), role)
		c.send("GET", editor, nil)
		sql := url.Values{"sql": {"SELECT name FROM crm_leads WHERE id = 3"}, "mark": {c.mark}}
		status, text := c.send("POST", editor, sql)
		require.Equal(t, may, strings.Contains(text, "Barbara"), role)
		require.Equal(t, may, status == 200, role)
		var did []string
		for _, a := range s.facts.recorded {
			did = append(did, a.What+" "+a.Object+": "+a.Outcome)
		}
		if may {
			require.Contains(t, did, "read rows crm_leads in warehouse: done")
			require.Contains(t, did, "query warehouse: SELECT name FROM crm_leads WHERE id = 3: done")
			sql.Set("mark", "wrong")
			status, _ = c.send("POST", editor, sql)
			require.Equal(t, http.StatusForbidden, status, "a form of another site")
			status, _ = s.formClient(t, "").send("POST", editor, sql)
			require.NotEqual(t, http.StatusOK, status, "a visitor who has not signed in")
		} else {
			require.NotRegexp(t, "(rows|query) .*: done", strings.Join(did, "\n"))
		}
	}
}

// A link signs in once.
func TestLinkWorksOnce(t *testing.T) {
	s, link := dataBoard(t, access.Query, leadName)
	status, _ := s.formClient(t, link).send("GET", "/data", nil)
	require.Equal(t, http.StatusOK, status)
	status, _ = s.formClient(t, link).send("GET", "/data", nil)
	require.Equal(t, http.StatusSeeOther, status)
}

// A statement that writes, or reads another file, does not run. Filters cannot add SQL.
func TestDataCannotWrite(t *testing.T) {
	s, link := dataBoard(t, access.Operate, leadName)
	c := s.formClient(t, link)
	c.send("GET", editor, nil)
	for _, sql := range []string{"DELETE FROM crm_leads", "DROP TABLE crm_leads", "SELECT 1; DROP TABLE crm_leads", "ATTACH 'other.db' AS o", "VACUUM INTO 'copy.db'", "PRAGMA writable_schema = 1", ""} {
		for _, format := range []string{"", "csv", "parquet"} {
			_, text := c.send("POST", editor, url.Values{"sql": {sql}, "mark": {c.mark}, "format": {format}})
			require.Contains(t, text, `role="alert"`, sql)
		}
	}
	for _, filter := range []string{"column=id&op=is&value=1+OR+1", "column=id+OR+1&op=is&value=1", "column=id&op=x&value=1", "column=open&op=is&value=1"} {
		_, text := c.send("GET", tableOf+"?"+filter, nil)
		require.Contains(t, text, `role="alert"`, filter)
	}
	for value, found := range map[string]bool{"x' OR 'a'='a": false, "Ada": true, "A": false} {
		_, text := c.send("GET", tableOf+"?column=name&op=is&value="+escape(value), nil)
		require.Equal(t, found, strings.Contains(text, `<td class="cell">Ada</td>`), value)
	}
	_, text := c.send("POST", editor, url.Values{"sql": {"SELECT count(*) AS n FROM crm_leads"}, "mark": {c.mark}, "format": {"csv"}})
	require.Equal(t, "n\n300\n", text)
}
