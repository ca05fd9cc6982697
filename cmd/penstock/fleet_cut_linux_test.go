//go:build cgo && duckdb_arrow

package main

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// isolatedNetwork is a network namespace. A virtual cable (veth) connects it to the host.
type isolatedNetwork struct{ name, cable string }

// The addresses of the two ends of the cable.
const (
	hostAddress   = "10.213.77.1"
	workerAddress = "10.213.77.2"
)

// newNetwork creates an isolated network. It needs root.
func newNetwork(t *testing.T) *isolatedNetwork {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a network namespace needs root")
	}
	n := &isolatedNetwork{name: fmt.Sprintf("penstock-%d", os.Getpid()), cable: fmt.Sprintf("pen%d", os.Getpid())}
	if out, err := exec.Command("ip", "netns", "add", n.name).CombinedOutput(); err != nil {
		t.Skipf("cannot create a network namespace: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", n.name).Run() })
	n.ip(t, "link", "add", n.cable, "type", "veth", "peer", "name", "cable", "netns", n.name)
	n.ip(t, "addr", "add", hostAddress+"/30", "dev", n.cable)
	n.ip(t, "-n", n.name, "addr", "add", workerAddress+"/30", "dev", "cable")
	n.ip(t, "link", "set", n.cable, "up")
	n.ip(t, "-n", n.name, "link", "set", "cable", "up")
	n.ip(t, "-n", n.name, "link", "set", "lo", "up")
	return n
}

func (n *isolatedNetwork) ip(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	require.NoError(t, err, "ip %v: %s", args, out)
}

// cut makes the cable drop all traffic. Neither side is notified. restore() ends the cut.
func (n *isolatedNetwork) cut(t *testing.T)     { n.ip(t, "link", "set", n.cable, "down") }
func (n *isolatedNetwork) restore(t *testing.T) { n.ip(t, "link", "set", n.cable, "up") }

// on() calls f in the network namespace. The processes that f starts and the listeners that f opens belong to this
// namespace.
func (n *isolatedNetwork) on(f func() error) error {
	runtime.LockOSThread() // because a network namespace is set for one thread
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer home.Close()
	there, err := os.Open("/run/netns/" + n.name)
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	err = f()
	if e := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); e != nil {
		return e // the thread stays locked, so the runtime ends the thread when the goroutine ends
	}
	runtime.UnlockOSThread()
	return err
}

// forward forwards connections of a listener to an address, and returns the listener's address.
func forward(t *testing.T, l net.Listener, to string) string {
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer out.Close()
				go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	return l.Addr().String()
}

// A worker loses its connection to the database in the middle of a unit. Another worker takes over the unit. When the
// connection is restored, the first worker commits nothing. // Invariant 13
func TestFleetCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for leases to expire")
	}
	n := newNetwork(t)
	r := newFleet(t, 3, "@every 2s")
	text, err := os.ReadFile(r.config())
	require.NoError(t, err)
	database, err := url.Parse(r.db.Config().ConnString())
	require.NoError(t, err)
	cable, err := net.Listen("tcp", hostAddress+":0")
	require.NoError(t, err)
	var inside net.Listener
	require.NoError(t, n.on(func() (err error) { inside, err = net.Listen("tcp", "127.0.0.1:0"); return err }))
	sources := strings.TrimPrefix(r.url, "http://")
	there := strings.NewReplacer(database.Host, forward(t, cable, database.Host), sources, forward(t, inside, sources)).Replace(string(text))
	config := filepath.Join(r.dir, "isolated.yaml")
	require.NoError(t, os.WriteFile(config, []byte(there), 0o600))

	asked, release := r.hold("ws001")
	serve := r.start("serve", "--slots", "0")
	r.until("SELECT count(DISTINCT source) FROM units", "3")
	first := r.startAs(config, func(c *exec.Cmd) error { return n.on(c.Start) }, "worker", "--slots", "4")
	select {
	case <-asked:
	case <-time.After(2 * time.Minute):
		t.Fatal(first.out)
	}
	r.until("SELECT count(*) FROM units WHERE state = 'done'", "8") // one unit of ws001 waits for its source
	run := r.text("SELECT run FROM units ORDER BY id LIMIT 1")
	of := "FROM units WHERE source = 'ws001' AND run = '" + run + "'"
	n.cut(t)
	cut := time.Now()
	release() // the first worker receives the records that it waits for, but cannot commit them
	second := r.start("worker", "--slots", "4")
	r.until("SELECT status FROM runs WHERE run = '"+run+"'", "complete")
	t.Logf("another worker finished the unit %s after the cut", time.Since(cut).Round(time.Second))
	require.NotEqual(t, "1", r.text("SELECT max(attempt) "+of), "another worker must have taken over the unit")
	settled := r.text("SELECT string_agg(units::text, ' ' ORDER BY id) " + of)
	certificates := "SELECT string_agg(c::text, ' ' ORDER BY stream, at) FROM ws_ws001._penstock_certificates c WHERE run = '" + run + "'"
	proven := r.text(certificates)
	n.restore(t)
	serve.end(t)
	r.until("SELECT count(*) FROM units WHERE state IN ('waiting', 'running', 'parked')", "0")
	first.end(t)
	second.end(t)
	require.Equal(t, settled, r.text("SELECT string_agg(units::text, ' ' ORDER BY id) "+of))
	require.Equal(t, proven, r.text(certificates), "the first worker must not commit")
	r.whole()
}
