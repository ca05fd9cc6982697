//go:build unix

package pgtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// pgbouncer returns the path of the program PgBouncer. On Debian, only some users have its folder in their PATH.
func pgbouncer(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no PgBouncer: install the package pgbouncer")
	return ""
}

// PoolerVersion returns the version of PgBouncer as a number: 118 for 1.18.
func PoolerVersion(t testing.TB) int {
	t.Helper()
	out, err := exec.Command(pgbouncer(t), "--version").Output()
	require.NoError(t, err)
	var major, minor int
	_, err = fmt.Sscanf(string(out), "PgBouncer %d.%d", &major, &minor)
	require.NoError(t, err, "%s", out)
	return 100*major + minor
}

// Pooler starts a PgBouncer in transaction mode in front of the server, and returns the URL of the database through it.
// PgBouncer stops when the test t ends. If it exits before, it is started again, as systemd would do: PgBouncer 1.18 exits
// if a client that has sent a cancel request closes its connection too early. Settings have the form name=value, as in
// the section [pgbouncer] of pgbouncer.ini.
func (s *Server) Pooler(t testing.TB, settings ...string) string {
	t.Helper()
	program := pgbouncer(t)
	dir := s.For(t).folderIn(parent())
	host, port, err := net.SplitHostPort(s.url.Host)
	require.NoError(t, err)
	login := fmt.Sprintf("user=%s", s.url.User.Username())
	if password, set := s.url.User.Password(); set {
		login += " password=" + password
	}
	own := freePort(t)
	lines := append([]string{
		"[databases]", fmt.Sprintf("* = host=%s port=%s %s", host, port, login),
		"[pgbouncer]", "listen_addr = 127.0.0.1", "listen_port = " + own, "unix_socket_dir =", "auth_type = any",
		"logfile = " + filepath.Join(dir, "pooler.log"), "pool_mode = transaction", "max_client_conn = 500", "default_pool_size = 20",
	}, settings...)
	config := filepath.Join(dir, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	supervise(t, program, "-q", config)
	u := *s.url
	u.Host, u.User = net.JoinHostPort("127.0.0.1", own), url.User(s.url.User.Username())
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	awaitPooler(t, u.String(), filepath.Join(dir, "pooler.log"))
	return u.String()
}

// supervise runs a program until the test t ends, and starts it again whenever it exits.
func supervise(t testing.TB, program string, args ...string) {
	start := func() *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.SysProcAttr = attributes(credential(t))
		if err := cmd.Start(); err != nil {
			t.Errorf("start %s: %v", program, err)
		}
		return cmd
	}
	cmd, stop, stopped := start(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			exited := make(chan struct{})
			go func() { defer close(exited); _ = cmd.Wait() }()
			select {
			case <-stop:
				_ = cmd.Process.Signal(syscall.SIGTERM)
				<-exited
				return
			case <-exited:
				t.Logf("%s has exited, and is started again", program)
				cmd = start()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
}

// awaitPooler waits until a PgBouncer answers.
func awaitPooler(t testing.TB, url, log string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		c, err := pgx.Connect(ctx, url)
		if err == nil {
			err = c.Close(ctx)
		}
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log)
			t.Fatalf("PgBouncer does not answer: %v\n%s", err, text)
		}
	}
}
