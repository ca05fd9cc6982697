//go:build unix

// Package mysqltest starts MariaDB servers for tests. It runs the installed server in a temporary folder, and never as
// root. If the environment variable PENSTOCK_TEST_MYSQL has the URL of a MySQL or MariaDB server, it creates databases
// in that server instead. If neither is possible, the test is skipped.
package mysqltest

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// Env is the name of the variable with the URL of an existing server: mysql://user:password@host:port/database.
const Env = "PENSTOCK_TEST_MYSQL"

// Server is a server that belongs to one test.
type Server struct {
	t       testing.TB
	url     url.URL
	dir     string // "" if the test did not start the server
	process *exec.Cmd
	exited  chan struct{} // closed after the process has ended
}

// Start starts a server, which ends with the test t. The server syncs nothing to the disk. That saves time. Data could
// be lost only in a power cut.
func Start(t testing.TB) *Server {
	t.Helper()
	if at := os.Getenv(Env); at != "" {
		u, err := url.Parse(at)
		require.NoError(t, err, "%s must be a URL", Env)
		return &Server{t: t, url: *u}
	}
	if _, err := exec.LookPath("mariadb-install-db"); err != nil {
		t.Skipf("no MariaDB: neither mariadb-install-db nor %s", Env)
	}
	s := &Server{t: t}
	s.dir = s.folder()
	s.url = url.URL{Scheme: "mysql", User: url.User("root"), Path: "/penstock", RawQuery: "socket=" + url.QueryEscape(filepath.Join(s.dir, "s"))}
	s.initialize()
	s.start()
	t.Cleanup(s.Stop)
	return s
}

// initialize makes the server's files. mariadb-install-db takes a second of processor time, so only the first test on
// this machine runs it, and the others copy its result. If several processes run it at the same time, one of the
// results is kept.
func (s *Server) initialize() {
	s.t.Helper()
	path, err := exec.LookPath("mariadb-install-db")
	require.NoError(s.t, err)
	program, err := os.Stat(path)
	require.NoError(s.t, err)
	made := fnv.New64a()
	fmt.Fprint(made, path, program.Size(), program.ModTime(), os.Getuid())
	template := filepath.Join(os.TempDir(), fmt.Sprintf("penstock-mariadb-install-%x", made.Sum64()))
	if _, err := os.Stat(template); errors.Is(err, fs.ErrNotExist) {
		s.makeTemplate(template)
	}
	copying := exec.Command("cp", "-Rp", template, s.data())
	copying.SysProcAttr = attributes(s.credential())
	out, err := copying.CombinedOutput()
	require.NoError(s.t, err, "%s", out)
}

// makeTemplate runs mariadb-install-db in a folder beside the template, and then renames the result. It does not use a
// folder of a server, which may be in memory: a rename works only within one file system.
func (s *Server) makeTemplate(template string) {
	fresh := Server{t: s.t}
	fresh.dir = fresh.folderIn(os.TempDir())
	out, err := fresh.command("mariadb-install-db", "--auth-root-authentication-method=normal", "--skip-test-db").CombinedOutput()
	require.NoError(s.t, err, "%s", out)
	if err := os.Rename(fresh.data(), template); err != nil {
		require.DirExists(s.t, template, "%v", err) // another process has made it
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// folder creates the server's folder, in memory if a gigabyte is free there.
func (s *Server) folder() string {
	parent := "/dev/shm"
	var disk syscall.Statfs_t
	if syscall.Statfs(parent, &disk) != nil || disk.Bavail*uint64(disk.Bsize) < 1<<30 {
		parent = os.TempDir()
	}
	return s.folderIn(parent)
}

func (s *Server) folderIn(parent string) string {
	dir, err := os.MkdirTemp(parent, fmt.Sprintf("penstock-mariadb-%d-", os.Getpid()))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if c := s.credential(); c != nil {
		require.NoError(s.t, os.Chown(dir, int(c.Uid), int(c.Gid)))
	}
	return dir
}

// credential returns the user that the server runs as, or nil for the current user. MariaDB refuses to run as root.
func (s *Server) credential() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"mysql", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.Atoi(u.Uid)
			gid, _ := strconv.Atoi(u.Gid)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	s.t.Skip("no MariaDB: it does not run as root, and there is no other user to run as")
	return nil
}

// command returns a command that runs one of the server's programs, with settings for a small and fast server.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, append([]string{"--no-defaults", "--datadir=" + s.data(), "--tmpdir=" + s.dir, "--innodb-log-file-size=16M"}, args...)...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin", "LC_ALL=C", "TZ=UTC", "HOME=" + s.dir}
	cmd.SysProcAttr = attributes(s.credential())
	return cmd
}

func (s *Server) start() {
	s.t.Helper()
	server := "mariadbd"
	if _, err := exec.LookPath(server); err != nil {
		server = "/usr/sbin/mariadbd"
	}
	s.process = s.command(server, "--socket="+filepath.Join(s.dir, "s"), "--skip-networking", "--innodb-flush-method=nosync", "--innodb-buffer-pool-size=64M")
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(s.t, err)
	defer log.Close()
	s.process.Stdout, s.process.Stderr = log, log
	require.NoError(s.t, s.process.Start())
	exited := make(chan struct{})
	s.exited = exited
	go func() { defer close(exited); _ = s.process.Wait() }()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("unix", filepath.Join(s.dir, "s")); err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			s.t.Fatalf("mariadbd does not answer: %s", text)
		}
	}
}

// Stop stops the server immediately, like a crash. It may be called twice.
func (s *Server) Stop() {
	_ = s.process.Process.Kill()
	<-s.exited
}

// Restart stops the server like a crash, and starts it again.
func (s *Server) Restart() {
	if s.process == nil {
		s.t.Skipf("cannot stop the server of %s", Env)
	}
	s.Stop()
	s.start()
}

// URL returns the URL of a database that does not exist yet. The database is dropped at the end of the test t.
func (s *Server) URL(t testing.TB) string {
	u := s.url
	name := fmt.Sprintf("penstock_test_%d_%d", os.Getpid(), rand.Uint32())
	u.Path = "/" + name
	if s.process == nil {
		t.Cleanup(func() { s.Exec("DROP DATABASE IF EXISTS " + name) })
	}
	return u.String()
}

// Connect opens a database of the server with the given name, or the server if the name is "".
func (s *Server) Connect(database string) *sql.DB {
	s.t.Helper()
	c := mysql.NewConfig()
	c.User = s.url.User.Username()
	c.Passwd, _ = s.url.User.Password()
	c.Net, c.Addr = "tcp", net.JoinHostPort(s.url.Hostname(), cmp.Or(s.url.Port(), "3306"))
	if socket := s.url.Query().Get("socket"); socket != "" {
		c.Net, c.Addr = "unix", socket
	}
	c.DBName, c.MultiStatements = database, true
	connector, err := mysql.NewConnector(c)
	require.NoError(s.t, err)
	return sql.OpenDB(connector)
}

// IsMariaDB reports whether the server is MariaDB and not MySQL.
func (s *Server) IsMariaDB() bool {
	s.t.Helper()
	db := s.Connect("")
	defer db.Close()
	version := ""
	require.NoError(s.t, db.QueryRowContext(context.Background(), "SELECT version()").Scan(&version))
	return strings.Contains(version, "MariaDB")
}

// Exec runs statements as an administrator.
func (s *Server) Exec(statements string) {
	s.t.Helper()
	db := s.Connect("")
	defer db.Close()
	_, err := db.ExecContext(context.Background(), statements)
	require.NoError(s.t, err, statements)
}

// Copy copies a database to a new one.
func (s *Server) Copy(from, to string) {
	s.t.Helper()
	var dump bytes.Buffer
	read := s.client("mariadb-dump", from)
	read.Stdout = &dump
	require.NoError(s.t, read.Run())
	s.Exec("DROP DATABASE IF EXISTS " + to + "; CREATE DATABASE " + to)
	write := s.client("mariadb", to)
	write.Stdin = &dump
	out, err := write.CombinedOutput()
	require.NoError(s.t, err, "%s", out)
}

// client returns a command that runs a client program, which connects to a database of the server.
func (s *Server) client(program, database string) *exec.Cmd {
	args := []string{"--no-defaults", "--user=" + s.url.User.Username()}
	if socket := s.url.Query().Get("socket"); socket != "" {
		args = append(args, "--socket="+socket)
	} else {
		args = append(args, "--host="+s.url.Hostname(), "--port="+cmp.Or(s.url.Port(), "3306"))
	}
	cmd := exec.Command(program, append(args, database)...)
	password, _ := s.url.User.Password()
	cmd.Env = append(os.Environ(), "MYSQL_PWD="+password)
	return cmd
}
