//go:build unix

// Package pgtest gives each test its own Postgres database. It starts a server from the installed programs, in a
// temporary folder. The server does not run as root. If the environment variable PENSTOCK_TEST_POSTGRES has the URL of
// a server, the package creates a database in that server instead. If neither is possible, the test is skipped.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Env is the name of the variable with the URL of an existing server.
const Env = "PENSTOCK_TEST_POSTGRES"

// Server is a database that belongs to one test.
type Server struct {
	t        testing.TB
	url      *url.URL
	bin, dir string // "" if the test did not start the server
	settings []string
	env      []string // more environment variables of the server
	process  *exec.Cmd
	exited   chan struct{} // closed after the process has ended
}

// Start starts a server, or creates a database in the server that Env names. When the test t ends, the server or the
// database is removed. Settings have the form name=value, as in postgresql.conf. By default, the server syncs nothing
// to the disk. That saves time, and data could be lost only in a power cut.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	if at := os.Getenv(Env); at != "" {
		return borrow(t, at)
	}
	s := newServer(t, settings...)
	t.Cleanup(s.remove)
	s.launch()
	return s
}

func newServer(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := &Server{t: t, bin: programs(t), settings: settings}
	port := freePort(t)
	s.url = &url.URL{Scheme: "postgres", User: url.User("penstock"), Host: net.JoinHostPort("127.0.0.1", port), Path: "/postgres", RawQuery: "sslmode=disable"}
	s.dir = s.folder()
	return s
}

// launch makes the server's files and starts the server.
func (s *Server) launch() {
	s.t.Helper()
	s.initialize()
	s.start()
}

// remove stops the server and removes its files.
func (s *Server) remove() {
	if s.exited != nil { // it has started
		s.Stop()
	}
	_ = os.RemoveAll(s.dir)
}

// programs returns the folder of the newest installed Postgres.
func programs(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		t.Skipf("no Postgres: neither initdb nor %s", Env)
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(found[len(found)-1])
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// folder creates the server's folder. The folder belongs to the user that the server runs as.
func (s *Server) folder() string {
	removeAbandoned()
	return s.folderIn(parent())
}

func (s *Server) folderIn(parent string) string {
	dir, err := os.MkdirTemp(parent, fmt.Sprintf(folderPrefix+"%d-", os.Getpid()))
	require.NoError(s.t, err)
	if c := credential(s.t); c != nil {
		require.NoError(s.t, os.Chown(dir, int(c.Uid), int(c.Gid)))
	}
	return dir
}

// folderPrefix begins the names of the servers' folders. After it come the id of the test process, a dash and random
// text.
const folderPrefix = "penstock-postgres-"

// removeAbandoned removes the folders of killed test processes if they are older than an hour. A folder in memory would
// otherwise stay until the machine restarts. A younger folder is kept, because it may belong to a process in another
// container, which this process cannot see.
func removeAbandoned() {
	found, _ := filepath.Glob(filepath.Join(parent(), folderPrefix+"*-*"))
	for _, dir := range found {
		id, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), folderPrefix), "-")
		pid, err := strconv.Atoi(id)
		info, gone := os.Stat(dir)
		if err == nil && gone == nil && time.Since(info.ModTime()) > time.Hour && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// initialize makes the server's files. initdb takes seconds. So only the first test on this machine runs it, and the
// other tests copy its result. If several processes run initdb at the same time, one of the results is kept.
func (s *Server) initialize() {
	s.t.Helper()
	program, err := os.Stat(filepath.Join(s.bin, "initdb"))
	require.NoError(s.t, err)
	made := fnv.New64a()
	fmt.Fprint(made, s.bin, program.Size(), program.ModTime(), os.Getuid(), segment)
	template := filepath.Join(os.TempDir(), fmt.Sprintf("penstock-initdb-%x", made.Sum64()))
	if _, err := os.Stat(template); errors.Is(err, fs.ErrNotExist) {
		s.makeTemplate(template)
	}
	copying := exec.Command("cp", "-Rp", template, s.data())
	copying.SysProcAttr = attributes(credential(s.t))
	out, err := copying.CombinedOutput()
	require.NoError(s.t, err, "%s", out)
}

// segment is an option of initdb. It makes the files of the server's log 1 MB long instead of 16 MB. So a copy of the
// server's files needs half the space.
const segment = "--wal-segsize=1"

// makeTemplate runs initdb in a new folder, and then renames the result to its final name. It makes both folders in the
// folder for temporary files, because a rename cannot move files to another file system. A server's own folder may be
// in memory.
func (s *Server) makeTemplate(template string) {
	dir := s.folderIn(os.TempDir())
	defer os.RemoveAll(dir)
	fresh := filepath.Join(dir, "data")
	s.run("initdb", "-D", fresh, "-U", "penstock", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", segment)
	if err := os.Rename(fresh, template); err != nil {
		require.DirExists(s.t, template, "%v", err) // another process has made it
	}
}

// credential returns the user that the server runs as, or nil for the current user. Postgres refuses to run as root.
func credential(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	t.Skip("no Postgres: it does not run as root, and there is no other user to run as")
	return nil
}

func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, program), args...)
	cmd.Dir = s.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + s.dir}, s.env...)
	cmd.SysProcAttr = attributes(credential(s.t))
	return cmd
}

func (s *Server) run(program string, args ...string) {
	s.t.Helper()
	out, err := s.command(program, args...).CombinedOutput()
	require.NoError(s.t, err, "%s: %s", program, out)
}

// start starts the server and waits until it answers.
func (s *Server) start() {
	s.t.Helper()
	args := []string{"-D", s.data(), "-p", s.url.Port(), "-k", s.dir, "-h", "127.0.0.1"}
	for _, set := range append([]string{
		"fsync=off", "full_page_writes=off", "max_wal_senders=0", "wal_level=minimal",
		"log_min_messages=fatal", "autovacuum_naptime=5min",
	}, s.settings...) {
		args = append(args, "-c", set)
	}
	s.process = s.command("postgres", args...)
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(s.t, err)
	defer log.Close()
	s.process.Stdout, s.process.Stderr = log, log
	require.NoError(s.t, s.process.Start())
	exited := make(chan struct{})
	s.exited = exited
	go func() { defer close(exited); _ = s.process.Wait() }()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if s.answers() {
			return
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			s.t.Fatalf("postgres does not answer: %s", text)
		}
	}
}

func (s *Server) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return false
	}
	return c.Close(ctx) == nil
}

// URL returns the URL of the database, for a superuser.
func (s *Server) URL() string { return s.url.String() }

// As returns the URL for another role.
func (s *Server) As(role, password string) string {
	u := *s.url
	u.User = url.UserPassword(role, password)
	return u.String()
}

// Via returns the URL through a proxy that listens at the given host:port.
func (s *Server) Via(address string) string {
	u := *s.url
	u.Host = address
	return u.String()
}

// Address returns the host:port at which the server listens.
func (s *Server) Address() string { return s.url.Host }

// PID returns the id of the server's main process.
func (s *Server) PID() int {
	s.own()
	return s.process.Process.Pid
}

// Stop stops the server immediately, like a crash. It may be called twice.
func (s *Server) Stop() {
	s.own()
	_ = s.process.Process.Signal(syscall.SIGQUIT)
	<-s.exited
}

// Restart stops the server and starts it again. If immediate is true, the server stops immediately, as in a crash.
// Otherwise it shuts down in order.
func (s *Server) Restart(immediate bool) {
	s.own()
	signal := syscall.SIGINT
	if immediate {
		signal = syscall.SIGQUIT
	}
	_ = s.process.Process.Signal(signal)
	<-s.exited
	s.start()
}

// Resume starts a server after Stop.
func (s *Server) Resume() {
	s.own()
	s.start()
}

func (s *Server) own() {
	s.t.Helper()
	if s.process == nil && os.Getenv(Env) == "" {
		s.t.Fatal("the server of pgtest.Shared belongs to all tests: use pgtest.Start")
	}
	if s.process == nil {
		s.t.Skipf("cannot stop the server of %s or read its log", Env)
	}
}

// Log returns the server's log.
func (s *Server) Log() string {
	s.t.Helper()
	s.own()
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	require.NoError(s.t, err)
	return string(text)
}

// For returns the same server, for a part of the test that ends earlier than the whole test. One input of a fuzz test
// is an example of such a part.
func (s *Server) For(t testing.TB) *Server {
	part := *s
	part.t = t
	return &part
}

// Exec runs statements as a superuser.
func (s *Server) Exec(sql string) {
	s.t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, s.URL())
	require.NoError(s.t, err)
	defer c.Close(ctx)
	_, err = c.PgConn().Exec(ctx, sql).ReadAll()
	require.NoError(s.t, err, sql)
}

// Text returns the first value of the last query's result as text. It returns "" for null or no row.
func (s *Server) Text(sql string) string {
	s.t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, s.URL())
	require.NoError(s.t, err)
	defer c.Close(ctx)
	results, err := c.PgConn().Exec(ctx, sql).ReadAll()
	require.NoError(s.t, err, sql)
	last := results[len(results)-1]
	if len(last.Rows) == 0 {
		return ""
	}
	return strings.Clone(string(last.Rows[0][0]))
}

// borrow creates a database in an existing server.
func borrow(t testing.TB, at string) *Server {
	t.Helper()
	u, err := url.Parse(at)
	require.NoError(t, err, "%s must be a URL", Env)
	admin := &Server{t: t, url: u}
	name := fmt.Sprintf("penstock_test_%d_%d", os.Getpid(), rand.Uint32())
	admin.Exec("CREATE DATABASE " + name)
	t.Cleanup(func() { admin.Exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)") })
	own := *u
	own.Path = "/" + name
	return &Server{t: t, url: &own}
}
