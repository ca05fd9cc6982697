//go:build cgo && duckdb_arrow

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/state"
)

// webhookStory changes the platform's contacts. It delivers the events about the changes late, out of order, and
// sometimes twice.
type webhookStory struct {
	*platform
	t      *testing.T
	random *rand.Rand
	inbox  *state.InboxFile
	late   []state.Event // events that are still to be delivered, or delivered again
	n      int           // number of changes
}

// change changes the platform, and makes the event about this change.
func (s *webhookStory) change() {
	ids := s.ids(s.t, "v2.contacts")
	id := ids[s.random.IntN(len(ids))]
	kind := "contact.updated"
	s.n++
	switch s.random.IntN(4) {
	case 0:
		kind = "contact.deleted"
		s.write(s.t, "DELETE", "/v2/contacts/"+id, "")
	case 1:
		kind, id = "contact.created", s.create()
	default:
		s.write(s.t, "PUT", "/v2/contacts/"+id, fmt.Sprintf(`{"name":"Name %d"}`, s.n))
	}
	s.late = append(s.late, state.Event{Source: "main", ID: fmt.Sprint("evt_", s.n), Type: kind, Scheme: "hex",
		Body: fmt.Appendf(nil, `{"id":"evt_%d","type":%q,"data":{"id":%q}}`, s.n, kind, id)})
}

// create creates a contact and returns its id.
func (s *webhookStory) create() string {
	before := map[string]bool{}
	for _, id := range s.ids(s.t, "v2.contacts") {
		before[id] = true
	}
	s.write(s.t, "POST", "/v2/contacts", fmt.Sprintf(`{"name":"New %d","email":"n%d@example.test"}`, s.n, s.n))
	for _, id := range s.ids(s.t, "v2.contacts") {
		if !before[id] {
			return id
		}
	}
	s.t.Fatal("no contact was created")
	return ""
}

// deliver puts n random events of s.late into the inbox. Some events stay in s.late, so that they are delivered again
// later.
func (s *webhookStory) deliver(n int) {
	for ; n > 0 && len(s.late) > 0; n-- {
		i := s.random.IntN(len(s.late))
		e := s.late[i]
		e.Received = time.Now().Add(-time.Minute)
		if s.random.IntN(3) > 0 {
			s.late = append(s.late[:i], s.late[i+1:]...)
		}
		_, err := s.inbox.Append(s.t.Context(), e)
		require.NoError(s.t, err)
	}
}

// TestWebhookStories: whatever the order of changes, deliveries, applied events and runs, the tables equal the
// platform in the end.
func TestWebhookStories(t *testing.T) {
	t.Parallel()
	seeds := 1
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS")); err == nil {
		seeds = n
	}
	onEach(t, func(t *testing.T, to target) {
		for seed := range seeds {
			to.reset(t, false)
			testWebhookStory(t, to, uint64(seed))
		}
	})
}

func testWebhookStory(t *testing.T, to target, seed uint64) {
	p := newPlatform(t, sandbox.Options{NoLimits: true}, `["v2.contacts"]`, to)
	b, err := state.OpenInbox(t.Context(), filepath.Join(p.dir, "state"), state.InboxOptions{})
	require.NoError(t, err)
	defer b.Close()
	s := &webhookStory{platform: p, t: t, random: rand.New(rand.NewPCG(seed, 9)), inbox: b}
	a := &app{out: io.Discard, err: io.Discard, log: slog.New(slog.DiscardHandler), open: open.Opener{File: p.config(), Log: slog.New(slog.DiscardHandler), Kinds: destinationKinds()}}
	c, err := a.open.Load()
	require.NoError(t, err)
	trims := daemon.NewInboxTrimmer(c)
	apply := func() {
		_, err := applyOne(t.Context(), a, c.Pipelines[0].Name, trims.Applier(a.executor(c), c, c.Pipelines[0], b))
		require.NoError(t, err)
	}
	for range 12 {
		switch s.random.IntN(6) {
		case 0:
			code, out, errs := p.penstock(t, "sync")
			require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
		case 1, 2:
			apply()
		default:
			s.change()
			s.deliver(s.random.IntN(3))
		}
	}
	s.deliver(10 * len(s.late))
	apply()
	code, out, errs := p.penstock(t, "sync", "--json")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	if d := p.compare(t); len(d) > 0 {
		t.Fatalf("seed %d: %s", seed, strings.Join(d, "\n"))
	}
	require.True(t, json.Valid([]byte(out)))
	w := to.open(t)
	defer w.db.Close()
	require.Zero(t, w.count(t, "SELECT count(*) - count(DISTINCT id) FROM v2_contacts"), "seed %d", seed)
	require.Zero(t, w.count(t, "SELECT count(*) - count(DISTINCT ordinal) FROM _penstock_events"), "seed %d", seed)
}
