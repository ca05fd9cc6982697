package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/access"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	boardfacts "github.com/penstock-data/penstock/cmd/internal/serve/facts"
)

// securityPage is the page that lists penstock's listeners and routes, and the files and tables that penstock writes.
const securityPage = "../../docs/security.md"

// entry is a row of a table on the page: the name of a file, route or table, and how that thing is protected. A
// placeholder in the name, such as <words>, stands for a text without / that begins with a letter or digit.
type entry struct {
	name  string
	match *regexp.Regexp
	mode  string // "" if the row has no mode
	found bool   // the name exists, or the row says that the file may be absent
}

// mayBeAbsent is the text in the rows of files that do not always exist.
const mayBeAbsent = "may be absent"

var (
	codeSpan  = regexp.MustCompile("`([^`]+)`")
	blankSpot = regexp.MustCompile(`<[a-z0-9 ]+>`)
	octalMode = regexp.MustCompile("^`?(0[0-7]{3})`?$")
)

// entriesOf returns the entries of the tables under a heading, up to the next heading.
func entriesOf(page, heading string) (all []*entry, err error) {
	_, section, ok := strings.Cut(page, "# "+heading+"\n")
	if !ok {
		return nil, fmt.Errorf("%s has no heading %q", securityPage, heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| `") || len(cells) < 2 {
			continue
		}
		mode := ""
		if m := octalMode.FindStringSubmatch(strings.TrimSpace(cells[1])); m != nil {
			mode = m[1]
		}
		for _, name := range codeSpan.FindAllStringSubmatch(cells[0], -1) {
			quoted := regexp.QuoteMeta(name[1])
			match, err := regexp.Compile("^" + blankSpot.ReplaceAllString(quoted, "[A-Za-z0-9][^/]*") + "$")
			if err != nil {
				return nil, err
			}
			all = append(all, &entry{name: name[1], match: match, mode: mode, found: strings.Contains(line, mayBeAbsent)})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no table below %q", securityPage, heading)
	}
	return all, nil
}

// comparePage returns the differences: names that are missing on the page, names on the page that do not exist, and
// wrong modes.
func comparePage(entries []*entry, names map[string]string) (wrong []string) {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		e := entryFor(entries, name)
		switch {
		case e == nil:
			wrong = append(wrong, "the page does not name "+name)
		case e.mode != "" && names[name] != "" && e.mode != names[name]:
			wrong = append(wrong, fmt.Sprintf("%s has the mode %s, the page says %s", name, names[name], e.mode))
		}
		if e != nil {
			e.found = true
		}
	}
	for _, e := range entries {
		if !e.found {
			wrong = append(wrong, "the page names "+e.name+", and nothing is there")
		}
	}
	return wrong
}

// entryFor returns the entry that matches a name. If several entries match, it returns the entry with the longest
// literal text. If no entry matches, it returns nil.
func entryFor(entries []*entry, name string) (best *entry) {
	for _, e := range entries {
		if e.name == name || e.match.MatchString(name) && (best == nil || e.literal() > best.literal()) {
			best = e
		}
		if e.name == name {
			return e
		}
	}
	return best
}

func (e *entry) literal() int { return len(blankSpot.ReplaceAllString(e.name, "")) }

// scriptSurface compares a table of the page with the files or objects that exist. Usage: surface files FOLDER
// HEADING, or surface objects FILE HEADING. FILE has one name per line.
func scriptSurface(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: surface files|objects PATH HEADING")
	}
	if args[0] == "files" {
		surfaceIs(ts, args[2], filesBelow(ts, ts.MkAbs(args[1])))
		return
	}
	surfaceIs(ts, args[2], withoutModes(strings.Fields(ts.ReadFile(args[1]))))
}

// withoutModes returns the names in the form that comparePage needs, without modes.
func withoutModes(all []string) map[string]string {
	names := map[string]string{}
	for _, name := range all {
		names[name] = ""
	}
	return names
}

// surfaceIs compares a table of the page with the names that exist.
func surfaceIs(ts *testscript.TestScript, heading string, names map[string]string) {
	page, err := os.ReadFile(securityPage)
	ts.Check(err)
	entries, err := entriesOf(string(page), heading)
	ts.Check(err)
	if wrong := comparePage(entries, names); len(wrong) > 0 {
		ts.Fatalf("docs/security.md, %s:\n%s", heading, strings.Join(wrong, "\n"))
	}
}

// filesBelow returns the files and folders in a folder, and their modes. The folder itself is "./".
func filesBelow(ts *testscript.TestScript, root string) map[string]string {
	names := map[string]string{}
	ts.Check(filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() == ".keep" {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if e.IsDir() {
			rel += "/"
		}
		mode := fmt.Sprintf("%04o", info.Mode().Perm())
		if info.Mode().Type() == fs.ModeSymlink {
			mode = "" // the mode of a link has no effect
		}
		names[filepath.ToSlash(rel)] = mode
		return err
	}))
	return names
}

// TestSurfaceRoutes compares the table of routes with the routes that the daemon has registered.
func TestSurfaceRoutes(t *testing.T) {
	page, err := os.ReadFile(securityPage)
	require.NoError(t, err)
	entries, err := entriesOf(string(page), "Routes")
	require.NoError(t, err)
	f := boardfacts.New(boardfacts.Config{}, &board.Feed{})
	b, err := board.New(board.Config{Facts: f, Control: f, Access: access.New(access.Options{}), Queue: http.NotFoundHandler()})
	require.NoError(t, err)
	names := map[string]string{"/webhooks/{source}": ""} // serve.Daemon.route handles this path before its mux
	for _, r := range serve.New(serve.Config{}).Routes() {
		if r.Pattern != "/" && r.Pattern != "/api/v1/" { // these belong to the dashboard
			names[r.Pattern] = ""
		}
	}
	for _, pattern := range b.Patterns() {
		names[pattern] = ""
	}
	require.Empty(t, comparePage(entries, names))
}

// TestSurfaceListeners compares the table of listeners with the code. The table must name every source file that opens
// a listener. The test does not search packages for tests.
func TestSurfaceListeners(t *testing.T) {
	page, err := os.ReadFile(securityPage)
	require.NoError(t, err)
	entries, err := entriesOf(string(page), "Listeners")
	require.NoError(t, err)
	opens := regexp.MustCompile(`(?m)^[^/\n]*\b(net|tls)\.Listen[A-Z]?\w*\(|^[^/\n]*(ListenConfig|ListenAndServe|httptest\.NewServer)`)
	names := map[string]string{}
	require.NoError(t, filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (strings.HasSuffix(e.Name(), "test") || path != "../.." && strings.HasPrefix(e.Name(), ".")):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if opens.Match(text) {
			names[strings.TrimPrefix(filepath.ToSlash(path), "../../")] = ""
		}
		return err
	}))
	require.Empty(t, comparePage(entries, names))
}

// TestSurfaceIsCompared checks that comparePage() finds an extra entry, a missing entry, and a wrong mode.
func TestSurfaceIsCompared(t *testing.T) {
	const page = "# A\n\n## Files\n\n| file | mode |\n|---|---|\n| `a`, `<name>.db` | `0600` |\n| `b/` | any |\n\n## Next\n| `c` | x |\n"
	entries := func() []*entry {
		all, err := entriesOf(page, "Files")
		require.NoError(t, err)
		require.Len(t, all, 3)
		return all
	}
	require.Empty(t, comparePage(entries(), map[string]string{"a": "0600", "x.db": "0600", "b/": "0755"}))
	require.Equal(t, []string{"the page does not name b/x.db", "the page does not name c"}, comparePage(entries(), map[string]string{"a": "0600", "x.db": "0600", "b/": "0755", "c": "", "b/x.db": ""}))
	require.Equal(t, []string{"the page names <name>.db, and nothing is there"}, comparePage(entries(), map[string]string{"a": "0600", "b/": "0755"}))
	require.Equal(t, []string{"a has the mode 0644, the page says 0600"}, comparePage(entries(), map[string]string{"a": "0644", "x.db": "0600", "b/": "0755"}))
	all, err := entriesOf(strings.Replace(page, "| any |", "| any; may be absent |", 1), "Files")
	require.NoError(t, err)
	require.Empty(t, comparePage(all, map[string]string{"a": "0600", "x.db": "0600"}))
	_, err = entriesOf(page, "Doors")
	require.ErrorContains(t, err, "no heading")
}

// scriptDeliver posts signed deliveries for a source to a socket. Usage: deliver SOCKET SOURCE SECRET.
func scriptDeliver(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: deliver SOCKET SOURCE SECRET")
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", ts.MkAbs(args[0]))
	}}}
	defer client.CloseIdleConnections()
	for i := range 5 {
		at, body := time.Now().Unix(), fmt.Sprintf(`{"id":"evt_%d","type":"crm.lead.created","data":{"id":%d}}`, i, i)
		m := hmac.New(sha256.New, []byte(args[2]))
		fmt.Fprintf(m, "%d.%s", at, body)
		r, err := http.NewRequest(http.MethodPost, "http://localhost/webhooks/"+args[1], strings.NewReader(body))
		ts.Check(err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Service-Signature", fmt.Sprintf("t=%d,v1=%x", at, m.Sum(nil)))
		resp, err := client.Do(r)
		ts.Check(err)
		ts.Check(resp.Body.Close())
		if resp.StatusCode != http.StatusOK {
			ts.Fatalf("deliver: %s", resp.Status)
		}
	}
}
