package main

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/check"
	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/serve/receive"
	"github.com/penstock-data/penstock/state"
)

// classroom is a folder with a configuration that has no signature scheme yet. A receiver accepts deliveries for this
// configuration.
type classroom struct {
	t      *testing.T
	app    *app
	dir    string
	inbox  *state.InboxFile
	recv   *daemon.Receiver
	server *httptest.Server
}

func newClassroom(t *testing.T, webhooks string) *classroom {
	t.Helper()
	c := &classroom{t: t, dir: t.TempDir()}
	c.write(webhooks)
	c.app = &app{open: open.Opener{File: c.path("pipelines.yaml"), Kinds: destinationKinds()}}
	conf, err := c.app.open.Load()
	require.NoError(t, err)
	c.inbox, err = state.OpenInbox(t.Context(), conf.State.Dir, state.InboxOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.inbox.Close() })
	c.recv, err = daemon.NewReceiver(t.Context(), conf, c.app.open.State(conf).Notes(), receive.Options{Inbox: c.inbox})
	require.NoError(t, err)
	c.server = httptest.NewServer(c.recv)
	t.Cleanup(c.server.Close)
	return c
}

func (c *classroom) path(name string) string { return filepath.Join(c.dir, name) }

func (c *classroom) write(webhooks string) {
	text := fmt.Sprintf(`version: 1
sources:
  main:
    app: {base_url: "http://127.0.0.1:1", auth: {token: t}}
    webhooks: %s
destinations: {lake: "parquet:%s"}
pipelines: {nightly: {from: main, to: lake, streams: crm.leads}}
state: %s
`, webhooks, c.path("lake"), c.path("state"))
	require.NoError(c.t, os.WriteFile(c.path("pipelines.yaml"), []byte(text), 0o600))
}

// deliver posts an event, signed with a secret as Stripe does.
func (c *classroom) deliver(id, secret string) int {
	c.t.Helper()
	body := fmt.Sprintf(`{"id":%q,"type":"lead.updated","data":{"id":7}}`, id)
	ts := strconv.FormatInt(time.Now().Unix(), 10)
	m := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(m, "%s.%s", ts, body)
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.server.URL+"/webhooks/main", strings.NewReader(body))
	require.NoError(c.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Service-Signature", "t="+ts+",v1="+hex.EncodeToString(m.Sum(nil)))
	res, err := http.DefaultClient.Do(req)
	require.NoError(c.t, err)
	require.NoError(c.t, res.Body.Close())
	return res.StatusCode
}

func (c *classroom) learn(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = runCommand(c.t.Context(), append([]string{"webhooks", "learn", "-c", c.path("pipelines.yaml")}, args...), &out, &err)
	return code, out.String(), err.String()
}

func (c *classroom) events() (ids []string) {
	c.t.Helper()
	all, err := c.inbox.Events(c.t.Context(), "main", 0, 100)
	require.NoError(c.t, err)
	for _, e := range all {
		require.NotEmpty(c.t, e.Scheme)
		ids = append(ids, e.ID)
	}
	return ids
}

// Deliveries that arrive before the scheme is known are stored but not applied. When the scheme is learned, they
// become events, and the receiver need not be restarted.
func TestWebhooksLearnWhileServing(t *testing.T) {
	c := newClassroom(t, "{secret: whsec_hush}")
	for i := range 4 {
		require.Equal(t, http.StatusOK, c.deliver(fmt.Sprintf("evt_%d", i), "whsec_hush"))
	}
	require.Empty(t, c.events())
	c.recv.Update(t.Context())
	require.Empty(t, c.events(), "nothing was learned yet")

	code, stdout, stderr := c.learn()
	require.Equal(t, failure.ExitUsage, code, stderr)
	require.Contains(t, stdout, "verifies all 4 deliveries (4 different bodies), signed with secret 1")
	require.Contains(t, stdout, `parse: {style: kv, pair_sep: ",", kv_sep: "=", sig: ["v1"], ts: "t"}`)
	require.Contains(t, stderr, "--yes")
	require.NoFileExists(t, filepath.Join(c.path("state"), "webhooks", "main.yaml"))

	code, stdout, stderr = c.learn("--yes", "--json")
	require.Equal(t, failure.ExitDone, code, stderr)
	var got learnReport
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.Equal(t, 4, got.Judged)
	require.True(t, got.Timed)
	require.Nil(t, got.Events, "the receiver has the inbox open")
	require.NotContains(t, stdout+stderr, "hush")

	c.recv.Update(t.Context())
	require.Equal(t, []string{"evt_0", "evt_1", "evt_2", "evt_3"}, c.events())
	require.Equal(t, http.StatusOK, c.deliver("evt_4", "whsec_hush"))
	require.Equal(t, http.StatusUnauthorized, c.deliver("evt_5", "whsec_other"))
	require.Equal(t, []string{"evt_0", "evt_1", "evt_2", "evt_3", "evt_4"}, c.events())
	require.Equal(t, http.StatusOK, c.deliver("evt_4", "whsec_hush"))
	require.Len(t, c.events(), 5)
}

// If serve does not run, `webhooks learn` turns the deliveries into events itself.
func TestWebhooksLearnAlone(t *testing.T) {
	c := newClassroom(t, "{secret: whsec_hush}")
	for i := range 3 {
		c.deliver(fmt.Sprintf("evt_%d", i), "whsec_hush")
	}
	require.NoError(t, c.inbox.Close())
	code, stdout, stderr := c.learn("main", "--yes")
	require.Equal(t, failure.ExitDone, code, stderr)
	require.Contains(t, stdout, "3 webhooks became events")
	var err error
	c.inbox, err = state.OpenInbox(t.Context(), c.path("state"), state.InboxOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"evt_0", "evt_1", "evt_2"}, c.events())

	// Now the printed scheme is pasted into the configuration. There it takes precedence over the stored scheme.
	_, block, found := strings.Cut(stdout, "scheme:\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "# stored")
	c.write("\n      secret: whsec_hush\n      scheme:\n        " + strings.ReplaceAll(strings.TrimSpace(block), "\n  ", "\n        "))
	conf, err := c.app.open.Load()
	require.NoError(t, err)
	require.Equal(t, "learned", conf.Sources[0].Webhooks.Schemes[0].Name)
	code, _, stderr = c.learn("--yes")
	require.Equal(t, failure.ExitUsage, code)
	require.Contains(t, stderr, "nothing to learn")
	pins, err := daemon.ReadPins(t.Context(), conf, c.app.open.State(conf).Notes())
	require.NoError(t, err)
	require.Empty(t, pins)
}

func TestWebhooksLearnFindsNothing(t *testing.T) {
	c := newClassroom(t, "{secret: whsec_hush}")
	code, _, stderr := c.learn("--yes")
	require.Equal(t, failure.ExitFailed, code)
	require.Contains(t, stderr, "nothing was captured")
	for i := range 2 {
		c.deliver(fmt.Sprintf("evt_%d", i), "whsec_hush")
	}
	code, _, stderr = c.learn("--yes")
	require.Equal(t, failure.ExitPartial, code)
	require.Contains(t, stderr, "2 so far, want 3")

	c.deliver("evt_2", "whsec_hush")
	c.deliver("evt_3", "whsec_forged")
	code, _, stderr = c.learn("--yes")
	require.Equal(t, failure.ExitFailed, code)
	require.Contains(t, stderr, "one scheme verifies 3 of 4 deliveries")
	require.Contains(t, stderr, "--without 4")
	code, stdout, stderr := c.learn("--yes", "--without", "4")
	require.Equal(t, failure.ExitDone, code, stderr)
	require.Contains(t, stdout, "all 3 deliveries")
	c.recv.Update(t.Context())
	require.Equal(t, []string{"evt_0", "evt_1", "evt_2"}, c.events())

	other := newClassroom(t, "{secret: whsec_wrong}")
	for i := range 3 {
		other.deliver(fmt.Sprintf("evt_%d", i), "whsec_hush")
	}
	code, _, stderr = other.learn("--yes")
	require.Equal(t, failure.ExitFailed, code)
	require.Contains(t, stderr, "usual causes:")
	require.NoFileExists(t, filepath.Join(other.path("state"), "webhooks", "main.yaml"))
	code, _, stderr = other.learn("nobody")
	require.Equal(t, failure.ExitUsage, code)
	require.Contains(t, stderr, "no source")
}

// If the stored scheme is invalid, a new receiver fails with an error. The error names the position of the fault.
func TestWebhooksSpoiledPin(t *testing.T) {
	c := newClassroom(t, "{secret: whsec_hush}")
	require.NoError(t, spoilPin(t, c.path("state"), []byte("scheme: {content: [method]}\n")))
	conf, err := c.app.open.Load()
	require.NoError(t, err)
	_, err = daemon.NewReceiver(t.Context(), conf, c.app.open.State(conf).Notes(), receive.Options{Inbox: c.inbox})
	require.ErrorContains(t, err, "main.yaml:1:19: the learned scheme content does not include the body")
	c.recv.Update(t.Context())
	c.recv.Update(t.Context())
	require.Equal(t, http.StatusOK, c.deliver("evt_1", "anything"), "the running receiver must still capture deliveries")
	require.Empty(t, c.events())
}

// `check` reports how deliveries are verified, both before and after the scheme is known.
func TestCheckWebhooks(t *testing.T) {
	c := newClassroom(t, "{secret: whsec_hush}")
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	told := func() check.Finding {
		t.Helper()
		conf, err := c.app.open.Load()
		require.NoError(t, err)
		all := daemon.CheckWebhooks(t.Context(), &c.app.open, conf, "main", at)
		require.Len(t, all, 1)
		require.Equal(t, "source main webhooks", all[0].Part)
		require.NotContains(t, all[0].Detail, "hush")
		return all[0]
	}
	shown := func() string {
		conf, err := c.app.open.Load()
		require.NoError(t, err)
		r, err := daemon.NewReceiver(t.Context(), conf, c.app.open.State(conf).Notes(), receive.Options{})
		require.NoError(t, err)
		return cmp.Or(r.Scheme(conf.Sources[0]), "learn")
	}
	for i := range 3 {
		c.deliver(fmt.Sprintf("evt_%d", i), "whsec_hush")
	}
	require.Equal(t, "scheme not known yet, 3 deliveries captured; secret 1", told().Detail)
	require.Contains(t, told().Hint, "penstock webhooks learn main")
	require.Equal(t, "learn", shown())
	code, _, stderr := c.learn("--yes")
	require.Equal(t, failure.ExitDone, code, stderr)
	require.Regexp(t, "^scheme learned; secret 1; replayed deliveries are recognized by their id", told().Detail)
	require.NotEqual(t, "learn", shown(), "the dashboard must also know the learned scheme")

	c.write("{scheme: hex, secrets: [{secret: a_hush, label: new}, {secret: b_hush, label: old, not_after: 2026-11-21T11:00:00Z}]}")
	require.Equal(t, "scheme hex in Service-Signature; secret new, old expired; replayed deliveries are recognized by their id (json:/id) for 90 days; no time is signed", told().Detail)
	c.write("{scheme: hex, secrets: [{secret: a_hush, label: new, not_after: 2026-12-01T00:00:00Z}]}")
	require.Contains(t, told().Detail, "scheme hex in Service-Signature; secret new until 2026-12-01 00:00:00 UTC; ")
	c.write("{scheme: hex, secrets: [{secret: b_hush, label: old, not_after: 2026-11-21T11:00:00Z}]}")
	got := told()
	require.False(t, got.OK)
	require.Equal(t, failure.ExitUsage, got.Code)
	require.Equal(t, "every secret has expired: secret old expired", got.Detail)

	c.write("{secret: whsec_hush}")
	require.NoError(t, spoilPin(t, c.path("state"), []byte("scheme: {}\n")))
	require.False(t, told().OK)
}

// spoilPin stores a text in place of the scheme that was learned for the source main.
func spoilPin(t *testing.T, dir string, text []byte) error {
	notes := (&state.Folder{Dir: dir}).Notes()
	was, err := notes.Note(t.Context(), daemon.PinName("main"))
	require.NoError(t, err)
	return notes.SetNote(t.Context(), daemon.PinName("main"), was, text)
}
