//go:build unix && cgo && duckdb_arrow

package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox"
)

const eventSecret = "whsec_of_the_fleet_alone"

// eventFleet has two processes of serve on one state database. They receive webhooks about five contacts of one
// workspace.
type eventFleet struct {
	*fleetRig
	mu     sync.Mutex
	serves []*fleetProcess
	ids    []string
}

func newEventFleet(t *testing.T) *eventFleet {
	t.Helper()
	r := &eventFleet{fleetRig: newFleet(t, 1, "@yearly")}
	text, err := os.ReadFile(r.config())
	require.NoError(t, err)
	all := strings.NewReplacer(fleetStreams, "[v2.contacts]", "ws000: {v2:", "ws000: {webhooks: {secret: "+eventSecret+", scheme: hex}, v2:").Replace(string(text))
	require.NoError(t, os.WriteFile(r.config(), []byte(all), 0o600))
	code, out, errs := r.penstock(t, "sync")
	require.Zero(t, code, out+errs)
	r.ids = slices.Sorted(maps.Keys(r.truth(t, "ws000", "v2.contacts")))[:5]
	for range 2 {
		r.serves = append(r.serves, r.start("serve", "--slots", "1"))
	}
	return r
}

// kill kills one of the two processes and starts it again.
func (r *eventFleet) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := rand.N(len(r.serves))
	r.serves[i].kill()
	r.serves[i] = r.start("serve", "--slots", "1")
}

// rename renames a contact at the source.
func (r *eventFleet) rename(id, name string) {
	r.t.Helper()
	q, err := http.NewRequest("PUT", r.url+"/ws000/v2/contacts/"+id, strings.NewReader(fmt.Sprintf(`{"name":%q}`, name)))
	require.NoError(r.t, err)
	q.Header.Set("Authorization", "Bearer "+sandbox.WritingKey)
	q.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(q)
	require.NoError(r.t, err)
	require.NoError(r.t, resp.Body.Close())
	require.Equal(r.t, 2, resp.StatusCode/100)
}

var servedAt = regexp.MustCompile(`msg=serving.*address=(\S+)|serving address=(\S+)`)

// deliver sends an event about a contact to random processes until a process acknowledges the event. At random, it
// delivers some events twice.
func (r *eventFleet) deliver(ctx context.Context, n int, id string) {
	body := fmt.Appendf(nil, `{"id":"evt_%d","type":"contact.updated","data":{"id":%q}}`, n, id)
	mac := hmac.New(sha256.New, []byte(eventSecret))
	mac.Write(body)
	for times := 1 + rand.N(2); times > 0 && ctx.Err() == nil; time.Sleep(rand.N(100 * time.Millisecond)) {
		r.mu.Lock()
		said := r.serves[rand.N(len(r.serves))].out.String()
		r.mu.Unlock()
		at := servedAt.FindStringSubmatch(said)
		if at == nil {
			continue
		}
		q, err := http.NewRequestWithContext(ctx, "POST", "http://"+at[1]+at[2]+"/webhooks/ws000", bytes.NewReader(body))
		if err != nil {
			continue
		}
		q.Header.Set("Service-Signature", fmt.Sprintf("%x", mac.Sum(nil)))
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode/100 == 2 {
			times--
		}
	}
}

// watch reads the contacts' names until the channel is closed. In sort order, a contact's new name is always after its
// old name. If the table shows an old name again after a new one, watch returns early with a text about both names.
func (r *eventFleet) watch(stop chan struct{}) (back string, err error) {
	c, err := pgx.ConnectConfig(context.Background(), r.db.Config().Copy())
	if err != nil {
		return "", err
	}
	defer c.Close(context.Background())
	last := map[string]string{}
	for {
		select {
		case <-stop:
			return "", nil
		case <-time.After(5 * time.Millisecond):
		}
		rows, err := c.Query(context.Background(), "SELECT id::text, name FROM ws_ws000.v2_contacts WHERE name LIKE 'n0%' AND _penstock_deleted_at IS NULL")
		if err != nil {
			return "", err
		}
		var id, name string
		_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
			if name < last[id] {
				back = fmt.Sprintf("%s: %s after %s", id, name, last[id])
			}
			last[id] = name
			return nil
		})
		if err != nil || back != "" {
			return back, err
		}
	}
}

// Two processes of serve receive deliveries of events about the same records. Deliveries are out of order, some arrive
// twice, and sometimes a process is killed. In the end, the table has the last version of each record. The table never
// shows a version after a later one. // Invariant 8
func TestFleetEventsInOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	kills := 5
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS")); err == nil {
		kills = n
	}
	r := newEventFleet(t)
	stop := make(chan struct{})
	var back string
	var trouble error
	var watching, sending sync.WaitGroup
	watching.Go(func() { back, trouble = r.watch(stop) })
	const changes = 20 // number of changes between two kills
	names := map[string]string{}
	for n := range (kills + 1) * changes {
		id := r.ids[rand.N(len(r.ids))]
		names[id] = fmt.Sprintf("n0%06d", n)
		r.rename(id, names[id])
		sending.Go(func() {
			time.Sleep(rand.N(300 * time.Millisecond))
			r.deliver(t.Context(), n, id)
		})
		time.Sleep(rand.N(60 * time.Millisecond))
		if n%changes == changes-1 && n/changes < kills {
			r.kill()
		}
	}
	sending.Wait()
	for id, name := range names {
		r.until("SELECT name FROM ws_ws000.v2_contacts WHERE id::text = '"+id+"'", name)
	}
	close(stop)
	watching.Wait()
	require.NoError(t, trouble)
	require.Empty(t, back, "the table showed a version of a record after a later version")
	for _, p := range r.serves {
		p.end(t)
	}
	require.Equal(t, "0", r.text("SELECT count(*) FROM leases WHERE name LIKE 'pipeline %' AND until > clock_timestamp()"))
}
