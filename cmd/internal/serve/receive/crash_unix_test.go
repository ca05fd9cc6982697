//go:build unix

package receive

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

// TestReceiverProcess is not a test: it is the receiver in a process of its own, which tests kill. It prints its
// address.
func TestReceiverProcess(t *testing.T) {
	dir := os.Getenv("PENSTOCK_TEST_RECEIVER")
	if dir == "" {
		t.Skip("runs only as a child process of other tests")
	}
	inbox, err := state.OpenInbox(context.Background(), dir, state.InboxOptions{Wait: 10 * time.Second})
	require.NoError(t, err)
	h := New(Options{Inbox: inbox})
	h.Define(Sources{"main": verifier(t)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	fmt.Printf("listening %s\n", l.Addr())
	_ = http.Serve(l, h)
}

type process struct {
	*exec.Cmd
	url string
}

func startReceiver(t *testing.T, dir string, by ...string) *process {
	t.Helper()
	args := append(by, os.Args[0], "-test.run", "^TestReceiverProcess$", "-test.timeout", "10m")
	p := &process{Cmd: exec.Command(args[0], args[1:]...)}
	p.Env = append(os.Environ(), "PENSTOCK_TEST_RECEIVER="+dir)
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
			p.url = "http://" + at + "/webhooks/main"
			return p
		}
	}
	t.Fatalf("the receiver did not start: %v", p.Wait())
	return nil
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Process.Kill())
	_ = p.Wait()
}

type sender struct {
	client *http.Client
	mu     sync.Mutex
	acked  map[string]bool
	tried  []string // deliveries that were not acknowledged; they are sent again, as a real sender does
	odd    []string
	next   int
	pad    int
}

func newSender(t *testing.T) *sender {
	s := &sender{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}, acked: map[string]bool{}}
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

func (s *sender) body(id string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"type":"crm.lead.created","data":{"object":{"id":7,"name":%q}}}`, id, strings.Repeat("a", s.pad))
}

func (s *sender) id() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.tried); n > 0 {
		id := s.tried[0]
		s.tried = s.tried[1:]
		return id
	}
	s.next++
	return "evt_" + strconv.Itoa(s.next)
}

func (s *sender) post(url, id string) {
	status := 0
	q, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(s.body(id)))
	if err == nil {
		q.Header.Set("Service-Signature", sign(s.body(id)))
		var a *http.Response
		if a, err = s.client.Do(q); err == nil {
			status = a.StatusCode
			_, err = io.Copy(io.Discard, a.Body)
			err = errors.Join(err, a.Body.Close())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case status == http.StatusOK: // the status has arrived, even if the rest of the response has not
		s.acked[id] = true
	case status == 0 || status == http.StatusServiceUnavailable:
		s.tried = append(s.tried, id)
	default:
		s.odd = append(s.odd, fmt.Sprintf("%s: %d %v", id, status, err))
	}
}

func (s *sender) flow(url string, stop <-chan struct{}) {
	var all sync.WaitGroup
	defer all.Wait()
	tick := time.NewTicker(time.Second / 300)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			all.Go(func() { s.post(url, s.id()) })
		}
	}
}

// check checks that every acknowledged delivery is in the inbox, complete and only once.
func (s *sender) check(t *testing.T, dir string) {
	t.Helper()
	inbox, err := state.OpenInbox(t.Context(), dir, state.InboxOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, inbox.Close()) }()
	there := map[string]int{}
	for after := int64(0); ; {
		es, err := inbox.Events(t.Context(), "main", after, 1000)
		require.NoError(t, err)
		if len(es) == 0 {
			break
		}
		for _, e := range es {
			require.Equal(t, string(s.body(e.ID)), string(e.Body))
			require.Greater(t, e.Ordinal, after)
			there[e.ID]++
			after = e.Ordinal
		}
	}
	missing := 0
	for id := range s.acked {
		if there[id] == 0 {
			missing++
		}
	}
	require.Zero(t, missing, "%d events were acknowledged, and none may be missing", len(s.acked))
	for id, n := range there {
		require.Equal(t, 1, n, "%s is there more than once", id)
	}
	require.Empty(t, s.odd)
}

func trials(t *testing.T, short int) int {
	n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS"))
	if err != nil || testing.Short() {
		return short
	}
	return n
}

// A receiver is killed many times. The inbox has every acknowledged event, and no event twice. // Invariant 3
func TestKilledReceiver(t *testing.T) {
	dir, s := t.TempDir(), newSender(t)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	n := trials(t, 8)
	for range n {
		p := startReceiver(t, dir)
		stop := make(chan struct{})
		var flow sync.WaitGroup
		flow.Go(func() { s.flow(p.url, stop) })
		time.Sleep(time.Duration(r.Int64N(int64(200 * time.Millisecond))))
		p.kill(t)
		close(stop)
		flow.Wait()
		s.client.CloseIdleConnections()
	}
	s.check(t, dir)
	require.NotEmpty(t, s.acked, "seed %d", seed)
	t.Logf("%d kills, %d events acknowledged, all of them there (seed %d)", n, len(s.acked), seed)
}
