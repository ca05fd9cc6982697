package receive

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

// call is a system call in a trace. Calls of several threads overlap, so a call has the numbers of its first and
// last line.
type call struct {
	name       string
	args       string
	path       string // path of the file that is its first argument
	ret        string
	begin, end int
}

// readTrace reads the output of strace -f -y -x. It returns the calls in the order in which they ended.
func readTrace(t *testing.T, path string) []call {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var calls []call
	open := map[string]call{}
	for n, line := range strings.Split(string(text), "\n") {
		pid, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimLeft(rest, " ")
		c, resumed := open[pid], strings.HasPrefix(rest, "<... ")
		if resumed {
			_, rest, _ = strings.Cut(rest, " resumed>")
		} else {
			c = call{begin: n}
			var ok bool
			if c.name, rest, ok = strings.Cut(rest, "("); !ok {
				continue
			}
		}
		if begun, ok := strings.CutSuffix(rest, " <unfinished ...>"); ok {
			c.args = begun
			open[pid] = c
			continue
		}
		if c.finish(c.args+rest, n) {
			calls = append(calls, c)
		}
	}
	return calls
}

// finish parses the end of a call. If the process was killed during a call, the call has no end.
func (c *call) finish(text string, line int) bool {
	at := strings.LastIndex(text, " = ")
	if at < 0 {
		return false
	}
	c.args, c.end = strings.TrimSuffix(strings.TrimRight(text[:at], " "), ")"), line
	descriptor := c.args
	c.ret, _, _ = strings.Cut(text[at+len(" = "):], " ")
	if c.name == "openat" {
		descriptor = text[at+len(" = "):]
	}
	if _, path, ok := strings.Cut(strings.SplitN(descriptor, ",", 2)[0], "<"); ok {
		c.path = strings.TrimSuffix(path, ">")
	}
	return true
}

func (c *call) data(t *testing.T) []byte {
	t.Helper()
	_, rest, _ := strings.Cut(c.args, `"`)
	end := 0
	for end < len(rest) && rest[end] != '"' {
		if rest[end] == '\\' {
			end++
		}
		end++
	}
	require.False(t, strings.HasPrefix(rest[end:], `"...`), "strace has cut %s", c.name)
	text, err := strconv.Unquote(`"` + octal(rest[:end]) + `"`)
	require.NoError(t, err)
	return []byte(text)
}

// octal pads octal escapes of C to three digits, as Go requires.
func octal(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		digits := 0
		for digits < 3 && i+1+digits < len(s) && s[i+1+digits] >= '0' && s[i+1+digits] <= '7' {
			digits++
		}
		if digits == 0 {
			b.WriteString(s[i : i+2])
			i++
			continue
		}
		b.WriteString(`\` + strings.Repeat("0", 3-digits) + s[i+1:i+1+digits])
		i += digits
	}
	return b.String()
}

func (c *call) number(t *testing.T, n int) int {
	t.Helper()
	args := strings.Split(c.args, ", ")
	v, err := strconv.Atoi(args[len(args)-n])
	require.NoError(t, err)
	return v
}

// disk models the files of a folder after a power cut. After the cut, a file certainly has the data that was synced.
// Data that was written after the last sync may be lost.
type disk struct {
	dir   string
	files map[string]*file
}

type file struct {
	synced   []byte
	pending  []change
	entered  bool
	unlinked bool // the file is removed when the folder is synced
}

type change struct {
	at   int // line of the trace in which the system call ended
	do   func([]byte) []byte
	torn func([]byte) []byte
}

func (d *disk) apply(t *testing.T, c call) {
	t.Helper()
	if strings.HasPrefix(c.ret, "-") {
		return
	}
	if (c.name == "fsync" || c.name == "fdatasync") && c.path == d.dir {
		for _, f := range d.files {
			f.entered = !f.unlinked
		}
		return
	}
	if c.name == "unlink" || c.name == "unlinkat" {
		if f := d.files[string(c.data(t))]; f != nil {
			f.unlinked = true
		}
		return
	}
	if filepath.Dir(c.path) != d.dir || strings.HasSuffix(c.path, "-shm") {
		return // SQLite rebuilds this file from the journal
	}
	f := d.files[c.path]
	if f == nil || f.unlinked {
		f = &file{}
		d.files[c.path] = f
	}
	switch c.name {
	case "pwrite64", "write":
		data, at := c.data(t), -1
		if c.name == "pwrite64" {
			at = c.number(t, 1)
		}
		f.pending = append(f.pending, change{c.end, put(data, at), put(data[:rand.IntN(len(data)+1)], at)})
	case "ftruncate":
		n := c.number(t, 1)
		cut := func(b []byte) []byte { return append(b, make([]byte, max(0, n-len(b)))...)[:n] }
		f.pending = append(f.pending, change{c.end, cut, cut})
	case "fsync", "fdatasync":
		for len(f.pending) > 0 && f.pending[0].at < c.begin {
			f.synced, f.pending = f.pending[0].do(f.synced), f.pending[1:]
		}
	}
}

func put(data []byte, at int) func([]byte) []byte {
	return func(b []byte) []byte {
		from := at
		if at < 0 {
			from = len(b)
		}
		b = append(b, make([]byte, max(0, from+len(data)-len(b)))...)
		copy(b[from:], data)
		return b
	}
}

// cut() writes the files as they are after a power cut. If the parameter luck is true, the files also have parts of the
// data that was not synced.
func (d *disk) cut(t *testing.T, dir string, luck bool) {
	t.Helper()
	for path, f := range d.files {
		if !f.entered {
			continue
		}
		content := slices.Clone(f.synced)
		for _, c := range f.pending {
			switch {
			case luck && rand.IntN(2) == 0:
				content = c.do(content)
			case luck && rand.IntN(2) == 0:
				content = c.torn(content)
			}
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(path)), content, 0o600))
	}
}

// traced returns the system calls of a receiver that gets n events from 8 senders.
func traced(t *testing.T, dir string, n int) []call {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed")
	}
	trace := filepath.Join(t.TempDir(), "trace")
	p := startReceiver(t, dir, "strace", "-f", "--seccomp-bpf", "-y", "-x", "-s", "1000000", "-o", trace,
		"-e", "trace=openat,pwrite64,write,ftruncate,fsync,fdatasync,read,unlink,unlinkat")
	s := newSender(t)
	s.pad = 160 << 10 // large events, so that SQLite checkpoints its journal during the test
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range n / 8 {
				s.post(p.url, s.id())
			}
		})
	}
	all.Wait()
	for tries := 0; len(s.acked) < n && tries < 10*n; tries++ { // a slow machine refuses some events
		s.post(p.url, s.id())
	}
	require.Len(t, s.acked, n, "%s", s.odd)
	stopTraced(t, p)
	return readTrace(t, trace)
}

func stopTraced(t *testing.T, p *process) {
	t.Helper()
	children, err := os.ReadFile("/proc/" + strconv.Itoa(p.Process.Pid) + "/task/" + strconv.Itoa(p.Process.Pid) + "/children")
	require.NoError(t, err)
	for _, pid := range strings.Fields(string(children)) {
		n, err := strconv.Atoi(pid)
		require.NoError(t, err)
		child, err := os.FindProcess(n)
		require.NoError(t, err)
		require.NoError(t, child.Kill())
	}
	_ = p.Wait() // strace passes on the exit status
}

var eventID = regexp.MustCompile(`"id":"(evt_\d+)"`)

// Each event is synced before its 2xx response. The test checks the order of the system calls, and what would remain if
// the power failed at the moment of the response. // Invariant 3
func TestPowerCut(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	calls := traced(t, dir, 32)
	d := &disk{dir: dir, files: map[string]*file{}}
	asked := map[string][]byte{} // by connection: data that was read since the last response
	heard := map[string]int{}    // by connection: line in which its last byte was read
	acked := map[string]bool{}
	synced, syncs, cuts, taken := -1, 0, 0, 0 // synced: line in which the last sync of the journal began
	for _, c := range calls {
		socket := strings.HasPrefix(c.path, "socket:")
		switch {
		case socket && c.name == "read" && !strings.HasPrefix(c.ret, "-"):
			asked[c.path] = append(asked[c.path], c.data(t)...)
			heard[c.path] = c.end
		case socket && c.name == "write" && bytes.HasPrefix(c.data(t), []byte("HTTP/1.1 2")):
			id := eventID.FindSubmatch(asked[c.path])
			require.NotNil(t, id, "a response without a request: %s", asked[c.path])
			require.Greater(t, synced, heard[c.path], "event %s was acknowledged, but the journal was not synced after the event had arrived", id[1])
			acked[string(id[1])] = true
			delete(asked, c.path)
			requireLeft(t, d, acked, cuts%2 == 1)
			cuts++
		case (c.name == "fsync" || c.name == "fdatasync") && strings.HasSuffix(c.path, "inbox.db-wal"):
			synced, syncs = c.begin, syncs+1
		case c.name == "fsync" && strings.HasSuffix(c.path, "inbox.db") && cuts > 0:
			taken++
		}
		d.apply(t, c)
	}
	require.GreaterOrEqual(t, cuts, 32)
	require.NotZero(t, taken, "no checkpoint copied the journal into the database file")
	t.Logf("%d responses, each after a sync; %d syncs of the journal; %d power cuts, and no acknowledged event was missing", cuts, syncs, cuts)
}

func requireLeft(t *testing.T, d *disk, ids map[string]bool, luck bool) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "penstock-cut-") // in memory, because no power cut is simulated here
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	d.cut(t, dir, luck)
	inbox, err := state.OpenInbox(t.Context(), dir, state.InboxOptions{})
	require.NoError(t, err)
	es, err := inbox.Events(t.Context(), "main", 0, 1e6)
	require.NoError(t, err)
	there := map[string]bool{}
	for _, e := range es {
		there[e.ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		require.True(t, there[id], "%s was acknowledged, so it must be in the inbox", id)
	}
	require.NoError(t, inbox.Close())
}
