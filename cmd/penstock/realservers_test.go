//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
)

// realRecords is how many records each server gets. It is not a multiple of any page size.
const realRecords = 1234

// realServer is a running third-party server.
type realServer struct {
	url    string
	token  string // token that may read and write everything; "" if the server needs none
	header string // the text before the token in the header Authorization
}

// realStream is a list of the server. It has the user's settings for the list, and the records that the list really
// has.
type realStream struct {
	name, path string
	ids        []string // ids of all records, which the server has assigned
	count      int      // number of records that the server reports

	// If this field is true, a run may refuse to load the list, but must say why. In no case may a run load only a part
	// of the list.
	stops bool
}

// TestRealServers reads lists of third-party servers. The configuration has only the paths of the lists. The number
// and the ids of the loaded rows must equal those that the servers report. `make servers` fetches the servers and runs
// this test.
func TestRealServers(t *testing.T) {
	dir := os.Getenv("PENSTOCK_TEST_SERVERS")
	if dir == "" {
		t.Skip("PENSTOCK_TEST_SERVERS does not name a folder with servers; `make servers` makes this folder")
	}
	dir, err := filepath.Abs(dir)
	require.NoError(t, err)
	tested := 0
	for _, server := range []struct {
		name, program string
		start         func(*testing.T, string) (*realServer, []realStream)
	}{
		{"pocketbase", "bin/pocketbase", startPocketBase},
		{"json-server", "npm/node_modules/json-server/lib/cli/bin.js", startJSONServer},
		{"datasette", "venv/bin/datasette", startDatasette},
	} {
		t.Run(server.name, func(t *testing.T) {
			program := filepath.Join(dir, server.program)
			if _, err := os.Stat(program); err != nil {
				t.Skipf("%s could not be fetched: no %s", server.name, program)
			}
			s, streams := server.start(t, program)
			for _, stream := range streams {
				t.Run(stream.name, func(t *testing.T) { s.read(t, stream) })
			}
			tested++
		})
	}
	require.Positive(t, tested, "no server could be fetched")
}

// read syncs one stream twice, each time in a new process of penstock. It compares the rows with the list's records.
func (s *realServer) read(t *testing.T, want realStream) {
	require.Len(t, want.ids, want.count, "the server's count must equal the number of ids")
	dir := t.TempDir()
	to := duckTarget{dir}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pipelines.yaml"), fmt.Appendf(nil, `version: 1
sources: {main: {app: {base_url: %q, auth: {token: "${REAL_TOKEN}"}}}}
destinations: {warehouse: %q}
pipelines: {all: {from: main, to: warehouse, streams: [real.%s]}}
streams: {real.%[3]s: {path: %[4]q}}
`, s.url, to.url(), want.name, want.path), 0o600))
	sync := func() (code int, out string) {
		self, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Args, cmd.Dir = []string{"penstock", "sync", "--no-progress", "-v"}, dir
		cmd.Env = append(os.Environ(), "REAL_TOKEN="+cmp.Or(s.token, "none"))
		all, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(all)
	}
	code, out := sync()
	if want.stops && code != failure.ExitDone {
		require.Contains(t, out, "real."+want.name+": ", "the output must say why a list was not read")
		t.Logf("the list was not read, and the output says so:\n%s", out)
		return
	}
	require.Equal(t, failure.ExitDone, code, out)
	w := to.open(t)
	table := "real_" + want.name
	require.EqualValues(t, want.count, w.count(t, "SELECT count(*) FROM "+table), out)
	require.Equal(t, want.ids, w.ids(t, table), out)
	require.Zero(t, w.count(t, "SELECT count(*) FROM _penstock_certificates WHERE verdict NOT IN ('proven', 'consistent')"), out)
	require.NoError(t, w.db.Close())

	code, out = sync()
	if want.stops && code != failure.ExitDone {
		require.Contains(t, out, "real."+want.name+": ", "the output must say why a list was not read")
		t.Logf("only the first sync read the list, and the output of the second says so:\n%s", out)
		return
	}
	require.Equal(t, failure.ExitDone, code, out)
	w = to.open(t)
	require.Zero(t, w.count(t, "SELECT sum(written + deleted) FROM (FROM _penstock_certificates QUALIFY row_number() OVER (ORDER BY run DESC) = 1)"), "the second run wrote rows")
}

// ids returns the records' ids, sorted.
func (w *warehouse) ids(t *testing.T, table string) []string {
	t.Helper()
	rows, err := w.db.Query("SELECT id::text FROM " + table)
	require.NoError(t, err)
	defer rows.Close()
	var all []string
	for rows.Next() {
		var id string
		require.NoError(t, rows.Scan(&id))
		all = append(all, id)
	}
	require.NoError(t, rows.Err())
	slices.Sort(all)
	return all
}

// launch runs a program until the test ends, and waits until it answers.
func launch(t *testing.T, alive string, cmd *exec.Cmd) *realServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	for i, arg := range cmd.Args {
		cmd.Args[i] = strings.NewReplacer("HOST", host, "PORT", port).Replace(arg)
	}
	log, err := os.Create(filepath.Join(cmd.Dir, "server.log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	})
	s := &realServer{url: "http://" + address, header: "Bearer "}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get(s.url + alive)
		if err == nil {
			_ = resp.Body.Close()
			return s
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("%s does not answer: %v\n%s", cmd.Path, err, said)
		}
	}
}

// call sends a request to the server's API and returns the response header.
func (s *realServer) call(t *testing.T, method, path string, body, into any) http.Header {
	t.Helper()
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		require.NoError(t, err)
		sent = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, sent)
	require.NoError(t, err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		req.Header.Set("Authorization", s.header+s.token)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, 2, resp.StatusCode/100, "%s %s: %s: %s", method, path, resp.Status, said)
	if into != nil {
		require.NoError(t, json.Unmarshal(said, into))
	}
	return resp.Header
}

// output runs one of the server's programs until it ends, and returns what it prints.
func output(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	require.NoError(t, err, "%s %s", program, strings.Join(args, " "))
	return strings.TrimSpace(string(out))
}

// startPocketBase starts PocketBase. Its lists are paged with the parameters page and perPage. A page states
// totalItems, and the ids are not numbers. One of the two collections is public.
func startPocketBase(t *testing.T, program string) (*realServer, []realStream) {
	dir := t.TempDir()
	output(t, dir, program, "superuser", "upsert", "owner@penstock.example", "correct-horse", "--dir", dir)
	cmd := exec.Command(program, "serve", "--dir", dir, "--http", "HOST:PORT")
	cmd.Dir = dir
	s := launch(t, "/api/health", cmd)
	s.header = ""
	var session struct{ Token string }
	s.call(t, "POST", "/api/collections/_superusers/auth-with-password",
		map[string]string{"identity": "owner@penstock.example", "password": "correct-horse"}, &session)
	s.token = session.Token
	var streams []realStream
	for name, rule := range map[string]any{"open": "", "closed": nil} {
		s.call(t, "POST", "/api/collections", map[string]any{"name": name, "type": "base", "listRule": rule, "fields": []map[string]string{
			{"name": "title", "type": "text"}, {"name": "n", "type": "number"}}}, nil)
		path := "/api/collections/" + name + "/records"
		stream := realStream{name: name, path: path}
		if name == "open" {
			stream.path = s.url + path
		}
		for i := range realRecords {
			var made struct{ ID string }
			s.call(t, "POST", path, map[string]any{"title": fmt.Sprintf("Record %d", i), "n": i}, &made)
			stream.ids = append(stream.ids, made.ID)
		}
		slices.Sort(stream.ids)
		var page struct{ TotalItems int }
		s.call(t, "GET", path+"?perPage=1", nil, &page)
		stream.count = page.TotalItems
		streams = append(streams, stream)
	}
	return s, streams
}

// startJSONServer starts json-server. A response is a bare array. Without parameters, it is the whole list. With
// _page, it is a page with the headers Link and X-Total-Count. With only _limit, it is the first part of the list, and
// nothing says that records are missing.
func startJSONServer(t *testing.T, program string) (*realServer, []realStream) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "db.json"), []byte(`{"posts":[]}`), 0o600))
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node")
	}
	cmd := exec.Command(node, program, "--quiet", "--host", "HOST", "--port", "PORT", "db.json")
	cmd.Dir = dir
	s := launch(t, "/posts", cmd)
	var ids []string
	for i := range realRecords {
		var made struct{ ID json.Number }
		s.call(t, "POST", "/posts", map[string]any{"title": fmt.Sprintf("Post %d", i), "views": i}, &made)
		ids = append(ids, made.ID.String())
	}
	slices.Sort(ids)
	var count int
	_, err = fmt.Sscan(s.call(t, "GET", "/posts?_page=1&_limit=1", nil, nil).Get("X-Total-Count"), &count)
	require.NoError(t, err)
	return s, []realStream{
		{name: "whole", path: s.url + "/posts", ids: ids, count: count},
		{name: "paged", path: s.url + "/posts?_page=1", ids: ids, count: count},
		{name: "limited", path: s.url + "/posts?_limit=50", ids: ids, count: count},
	}
}

// startDatasette starts Datasette, which serves tables as lists without totals. A page is an object with a token for
// the next page, or a bare array with the header Link.
func startDatasette(t *testing.T, program string) (*realServer, []realStream) {
	dir := t.TempDir()
	cmd := exec.Command(program, "shop.db", "--create", "--secret", "not-so-secret", "--host", "HOST", "--port", "PORT",
		"-s", "permissions.create-table.id", "root", "-s", "permissions.insert-row.id", "root")
	cmd.Dir = dir
	s := launch(t, "/-/versions.json", cmd)
	s.token = output(t, dir, program, "create-token", "root", "--secret", "not-so-secret")
	var ids []string
	rows := make([]map[string]any, realRecords)
	for i := range rows {
		rows[i] = map[string]any{"id": i + 1, "name": fmt.Sprintf("Item %d", i), "price": float64(i) / 4}
		ids = append(ids, fmt.Sprint(i+1))
	}
	slices.Sort(ids)
	s.call(t, "POST", "/shop/-/create", map[string]any{"table": "items", "rows": rows[:100], "pk": "id"}, nil)
	for part := range slices.Chunk(rows[100:], 100) {
		s.call(t, "POST", "/shop/items/-/insert", map[string]any{"rows": part}, nil)
	}
	var counted struct{ Count int }
	s.call(t, "GET", "/shop/items.json?_size=0&_extra=count", nil, &counted)
	return s, []realStream{
		{name: "rows", path: "/shop/items.json", ids: ids, count: counted.Count},
		{name: "open", path: s.url + "/shop/items.json?_size=73", ids: ids, count: counted.Count, stops: true},
		{name: "bare", path: s.url + "/shop/items.json?_shape=array", ids: ids, count: counted.Count},
	}
}
