//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/cmd/internal/serve/receive"
)

// hooked() starts a daemon that receives webhooks. The argument `line` is the bash command that starts the daemon. In
// this command, $0 is the program.
func hooked(t *testing.T, line string) (d *serving, address string) {
	t.Helper()
	d = newDaemon(t, "@yearly")
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "pipelines.yaml"), []byte(strings.Replace(hookedConfig, "SANDBOX", d.url, 1)), 0o600))
	self, err := os.Executable()
	require.NoError(t, err)
	d.cmd, d.out = exec.Command("bash", "-c", line, self), &spoken{}
	d.cmd.Dir, d.cmd.Stdout, d.cmd.Stderr = d.dir, d.out, d.out
	require.NoError(t, d.cmd.Start())
	d.says("address=")
	return d, regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(d.out.String())[1]
}

// delivery returns a signed webhook request with a body of one kilobyte.
func delivery(address, id, secret string) *http.Request {
	body := fmt.Appendf(nil, `{"id":%q,"type":"v2.contact.updated","data":{"object":{"id":7,"pad":%q}}}`, id, strings.Repeat("a", 940))
	ts := strconv.FormatInt(time.Now().Unix(), 10)
	m := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(m, "%s.%s", ts, body)
	r, err := http.NewRequest(http.MethodPost, "http://"+address+"/webhooks/main", bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Service-Signature", "t="+ts+",v1="+hex.EncodeToString(m.Sum(nil)))
	return r
}

const hookedSecret = "whsec_of_this_test_alone"

// send posts a delivery and returns the status of the response, or 0 if there was no response.
func send(c *http.Client, r *http.Request) int {
	resp, err := c.Do(r)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// from() returns a client that connects from the given address of the machine. The client opens at most the given
// number of connections.
func from(t *testing.T, ip string, connections int) *http.Client {
	dial := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}, Timeout: 2 * time.Second}
	tr := &http.Transport{DialContext: dial.DialContext, MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// files returns how many descriptors a process has open.
func files(t *testing.T, pid int) int {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	return len(all)
}

// cpuOf returns the CPU time that a process has used.
func cpuOf(t *testing.T, pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
	user, err := strconv.Atoi(f[11])
	require.NoError(t, err)
	system, err := strconv.Atoi(f[12])
	require.NoError(t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// good() sends authentic deliveries, one after the other, until the channel is closed. It returns how long each
// delivery took. If a delivery is not accepted, the test fails.
func good(t *testing.T, address string, stop <-chan struct{}) []time.Duration {
	c := from(t, "127.0.0.1", 4)
	var took []time.Duration
	for i := 0; ; i++ {
		select {
		case <-stop:
			slices.Sort(took)
			return took
		case <-time.After(20 * time.Millisecond):
		}
		begun := time.Now()
		if status := send(c, delivery(address, fmt.Sprintf("evt_good_%d", i), hookedSecret)); status != http.StatusOK {
			t.Errorf("delivery %d: %d", i, status)
		}
		took = append(took, time.Since(begun))
	}
}

// TestFewDescriptors lets a daemon have only 64 file descriptors, and opens more than a thousand connections to it.
// The daemon logs that too many connections are open. It still answers a client that was connected before, and it can
// still open the database and apply events. When the connections have ended, the daemon serves new clients again.
func TestFewDescriptors(t *testing.T) {
	d, address := hooked(t, `ulimit -n 64; exec -a penstock "$0" serve`)
	c := from(t, "127.0.0.1", 1)
	require.Equal(t, http.StatusOK, send(c, delivery(address, "evt_before", hookedSecret)))
	var held []net.Conn
	for i := range 1024 {
		dial := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%8))}, Timeout: time.Second}
		if conn, err := dial.Dial("tcp", address); err == nil {
			_, _ = io.WriteString(conn, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
			held = append(held, conn)
		}
	}
	d.says("too many are open")
	fresh := from(t, "127.0.0.1", 1)
	fresh.Timeout = 500 * time.Millisecond
	told := map[int]int{}
	for i := range 10 {
		fresh.CloseIdleConnections()
		told[send(fresh, delivery(address, fmt.Sprintf("evt_amid_%d", i), hookedSecret))]++
		require.Equal(t, http.StatusOK, send(c, delivery(address, fmt.Sprintf("evt_kept_%d", i), hookedSecret)), d.out)
	}
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(d.dir, "warehouse.duckdb"))
		return err == nil
	}, time.Minute, 10*time.Millisecond, "events must be applied: %s", d.out)
	for _, conn := range held {
		require.NoError(t, conn.Close())
	}
	freed := time.Now()
	fresh.Timeout = 10 * time.Second
	require.Eventually(t, func() bool {
		fresh.CloseIdleConnections()
		return send(fresh, delivery(address, "evt_after", hookedSecret)) == http.StatusOK
	}, 2*time.Minute, 50*time.Millisecond, "%s", d.out)
	t.Logf("%d connections; responses to new clients: %v; new clients were served again after %s", len(held), told, time.Since(freed).Round(time.Millisecond))
	delete(told, 0)
	delete(told, http.StatusOK)
	delete(told, http.StatusServiceUnavailable)
	require.Empty(t, told, "only 200 and 503 are expected")
	require.NotContains(t, d.out.String(), "too many open files")
	code, _ := d.end(syscall.SIGTERM)
	require.Equal(t, 143, code, d.out)
}

func TestConnections(t *testing.T) {
	for limit, want := range map[int]receive.Connections{0: {PerAddress: 1024, Total: 4096}, 1: {PerAddress: 1, Total: 1}, 64: {PerAddress: 10, Total: 16}, 256: {PerAddress: 128, Total: 192}, 1024: {PerAddress: 512, Total: 768}, 1 << 20: {PerAddress: 1024, Total: 4096}} {
		require.Equal(t, want, daemon.Connections(limit), limit)
	}
}

// Two thousand clients send one byte per second. Half of them send a header in this way, and half send a body.
// Authentic deliveries are still accepted. The daemon disconnects slow clients although they keep sending.
func TestSlowClients(t *testing.T) {
	clients := 2000
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	d, address := hooked(t, `exec -a penstock "$0" serve`)
	baseline := files(t, d.cmd.Process.Pid)
	stop, gone := make(chan struct{}), atomic.Int64{}
	var all sync.WaitGroup
	begun := time.Now()
	for i := range clients {
		dial := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%8))}, Timeout: 30 * time.Second}
		conn, err := dial.Dial("tcp", address)
		require.NoError(t, err)
		all.Go(func() {
			defer conn.Close()
			text := "POST /webhooks/main HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"
			if i%2 == 0 {
				_, _ = io.WriteString(conn, text+"\r\n")
				text = strings.Repeat("x", 1000)
			}
			for j := range len(text) {
				if _, err := io.WriteString(conn, text[j:j+1]); err != nil {
					gone.Add(1)
					return
				}
				select {
				case <-stop:
					return
				case <-time.After(time.Second):
				}
			}
		})
	}
	end := make(chan struct{})
	time.AfterFunc(15*time.Second, func() { close(end) })
	peak := files(t, d.cmd.Process.Pid)
	took := good(t, address, end)
	require.Eventually(t, func() bool { return files(t, d.cmd.Process.Pid) <= baseline+8 }, time.Minute, 100*time.Millisecond)
	back := time.Since(begun)
	close(stop)
	all.Wait()
	t.Logf("%d slow clients, %d cut off; %d authentic deliveries, p50 %s, p99 %s; descriptors: %d before, %d during the test, freed %s after the first client",
		clients, gone.Load(), len(took), took[len(took)/2], took[len(took)*99/100], baseline, peak, back.Round(100*time.Millisecond))
	code, _ := d.end(syscall.SIGTERM)
	require.Equal(t, 143, code, d.out)
}

// Sixteen clients send forged deliveries as fast as they can. Authentic deliveries are still accepted, and the log has
// only a few lines about the forged deliveries.
func TestForgeries(t *testing.T) {
	long := 5 * time.Second
	if testing.Short() {
		long = time.Second
	}
	d, address := hooked(t, `exec -a penstock "$0" serve`)
	stop, forged := make(chan struct{}), atomic.Int64{}
	var all sync.WaitGroup
	before, begun := cpuOf(t, d.cmd.Process.Pid), time.Now()
	time.AfterFunc(long, func() { close(stop) })
	for i := range 16 {
		c := from(t, fmt.Sprintf("127.0.0.%d", 2+i%8), 16)
		all.Go(func() {
			r := delivery(address, "evt_forged", "whsec_of_somebody_else")
			for {
				select {
				case <-stop:
					return
				default:
				}
				again := r.Clone(t.Context())
				again.Body, _ = r.GetBody()
				if status := send(c, again); status != http.StatusUnauthorized {
					t.Errorf("a forged delivery: %d", status)
					return
				}
				forged.Add(1)
			}
		})
	}
	took := good(t, address, stop)
	all.Wait()
	used, wall := cpuOf(t, d.cmd.Process.Pid)-before, time.Since(begun)
	lines := strings.Count(d.out.String(), "webhook refused")
	t.Logf("%d forged deliveries in %s, %s of CPU in total, %s for 50,000 of them; %d authentic, p50 %s, p99 %s; %d log lines", forged.Load(), wall.Round(time.Millisecond), used,
		(used * 50_000 / time.Duration(max(1, forged.Load()))).Round(10*time.Millisecond), len(took), took[len(took)/2], took[len(took)*99/100], lines)
	require.LessOrEqual(t, lines, 10*(int(wall/time.Second)+2))
	code, _ := d.end(syscall.SIGTERM)
	require.Equal(t, 143, code, d.out)
}
