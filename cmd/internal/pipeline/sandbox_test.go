package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

type platform struct {
	*rig
	*sourcetest.Platform
}

func newPlatform(t *testing.T, o sandbox.Options, keep func(schemas.Stream) bool) *platform {
	t.Helper()
	p := &platform{rig: &rig{t: t, memory: loadtest.NewMemory(nil)}, Platform: sourcetest.NewPlatform(t, o, keep)}
	p.config = Config{Name: "nightly", Streams: p.Streams, Source: p.Connect()}
	return p
}

func (p *platform) distinct(s schemas.Stream) int {
	p.t.Helper()
	truth, err := p.Sandbox.Truth(s.Name)
	require.NoError(p.t, err)
	if len(s.Key) == 0 {
		return len(truth)
	}
	seen := map[string]bool{}
	for _, r := range truth {
		key := ""
		for _, column := range s.Key {
			key += string(cell(p.t, r, column)) + "\n"
		}
		seen[key] = true
	}
	return len(seen)
}

func cell(t *testing.T, record json.RawMessage, column string) json.RawMessage {
	t.Helper()
	for _, name := range strings.Split(column, "__") {
		var fields map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(record, &fields))
		record = fields[name]
	}
	return record
}

func (p *platform) aliveRows(table string) int {
	n := 0
	for _, row := range p.memory.Rows(table) {
		if _, dead := row[schemas.ColDeletedAt]; !dead {
			n++
		}
	}
	return n
}

// equal fails the test if a table of rep does not have as many live rows as the platform has records. A stream with a
// time window may have more rows.
func (p *platform) equal(rep Report) {
	p.t.Helper()
	for i, s := range rep.Streams {
		p.equalOne(p.config.Streams[i], s)
	}
}

func (p *platform) equalOne(stream schemas.Stream, s StreamReport) {
	p.t.Helper()
	if s.Status != StatusComplete {
		p.t.Errorf("%s: %s: %v", s.Stream, s.Status, s.Err)
		return
	}
	if got, want := p.aliveRows(s.Table), p.distinct(stream); got < want || got > want && !stream.Window {
		p.t.Errorf("%s: %d rows, want %d (%s, %+v)", s.Stream, got, want, s.Verdict, s.Counts)
	}
}

func (p *platform) again() {
	p.restart(nil)
	p.config.Source = p.Connect()
}

// falsely returns the number of rows that are marked as deleted although the platform has their records.
// Invariant 12
func (p *platform) falsely(stream, table string) int {
	p.t.Helper()
	truth, err := p.Sandbox.Truth(stream)
	require.NoError(p.t, err)
	there := map[string]bool{}
	for _, r := range truth {
		there[strings.Trim(string(cell(p.t, r, "id")), `"`)] = true
	}
	n := 0
	for _, row := range p.memory.Rows(table) {
		if _, dead := row[schemas.ColDeletedAt]; dead && there[row["id"]] {
			n++
		}
	}
	return n
}

func modules(names ...string) func(schemas.Stream) bool {
	return func(s schemas.Stream) bool { return slices.Contains(names, s.Module) }
}

func TestSandboxWholeAndAgain(t *testing.T) {
	p := newPlatform(t, sandbox.Options{NoLimits: true}, func(schemas.Stream) bool { return true })
	rep := p.must(StatusComplete)
	p.equal(rep)
	p.again()
	rep = p.must(StatusComplete)
	p.equal(rep)
	require.Zero(t, rep.Totals().Counts.Written)
	require.Zero(t, rep.Totals().Counts.Deleted)
}

func TestSandboxChangesAndDeletionsArrive(t *testing.T) {
	p := newPlatform(t, sandbox.Options{NoLimits: true}, modules("crm", "projects", "v2"))
	p.must(StatusComplete)
	ids := func(table string) []string {
		var out []string
		for _, r := range p.memory.Rows(table) {
			out = append(out, r["id"])
		}
		return out
	}
	p.Sandbox.Touch(0.1)
	p.Do("DELETE", "/api/lead/delete/"+ids("crm_leads")[3])
	p.Do("DELETE", "/api/deal/delete/"+ids("crm_deals")[0])
	p.Do("DELETE", "/api/project/delete/"+ids("projects_projects")[1])
	p.Do("DELETE", "/v2/contacts/"+ids("v2_contacts")[2])
	p.again()
	rep := p.must(StatusComplete)
	p.equal(rep)
	require.Positive(t, rep.Totals().Counts.Deleted)
	p.again()
	require.Zero(t, p.must(StatusComplete).Totals().Counts.Written)
}

func TestSandboxModuleSwitchedOff(t *testing.T) {
	p := newPlatform(t, sandbox.Options{NoLimits: true}, modules("crm", "projects"))
	p.must(StatusComplete)
	before := p.memory.Rows("crm_leads")
	require.NoError(t, p.Sandbox.SetFaults(sandbox.Fault{Match: "crm.*", Kind: sandbox.FaultModuleOff}))
	p.again()
	rep := p.must(StatusPartial)
	require.Equal(t, 75, rep.ExitCode())
	for _, s := range rep.Streams {
		want := StatusComplete
		if strings.HasPrefix(s.Stream, "crm.") {
			want = StatusUnavailable
		}
		require.Equal(t, want, s.Status, "%s: %v", s.Stream, s.Err)
	}
	require.Equal(t, before, p.memory.Rows("crm_leads"))
}

// The server refuses the list of parents. The child streams get no records, and the run still ends.
func TestSandboxParentRefused(t *testing.T) {
	p := newPlatform(t, sandbox.Options{
		NoLimits: true, Faults: []sandbox.Fault{{Match: "crm.deals", Kind: sandbox.FaultStatus, Status: http.StatusForbidden}},
	}, func(s schemas.Stream) bool { return s.Name == "crm.deals" || s.Name == "crm.deal" })
	p.config.Locks = &overlay.Locks{}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // shorter than the time that a child stream waits for the pass over its parent
	defer cancel()
	rep, err := p.run(ctx)
	require.NoError(t, err)
	require.Equal(t, StatusPartial, rep.Status)
	for _, s := range rep.Streams {
		require.Equal(t, StatusUnavailable, s.Status, "%s: %v", s.Stream, s.Err)
	}
}

func TestSandboxStoppedOverAndOver(t *testing.T) {
	p := newPlatform(t, sandbox.Options{NoLimits: true, Latency: time.Millisecond}, modules("crm", "projects"))
	p.config.limits = perPage
	stride := 1
	if testing.Short() {
		stride = 3
	}
	for n := 1; ; n += stride {
		require.Less(t, n, 200, "runs")
		late := max(0, n-60)
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(4*n+late*late)*time.Millisecond)
		rep, err := p.run(ctx)
		cancel()
		if err == nil && rep.Status == StatusComplete {
			p.equal(rep)
			t.Logf("%d runs", n)
			return
		}
		require.Equal(t, StatusStopped, rep.Status, "%v: %v", err, failures(rep))
		p.again()
	}
}

// failures returns the errors of the streams that failed.
func failures(rep Report) (all []error) {
	for _, s := range rep.Streams {
		if s.Status == StatusFailed {
			all = append(all, fmt.Errorf("%s: %w", s.Stream, s.Err))
		}
	}
	return all
}

// Rows come and go while lists are read. No existing row is marked as deleted, and one run after the changes makes
// the tables correct.
//
// There is one exception. If a list has a round number of records, such as 100, the server may have cut it at a hidden
// limit. The table then keeps rows that the list lacks, and the run reports that.
func TestSandboxDrift(t *testing.T) {
	p := newPlatform(t, sandbox.Options{NoLimits: true, Scale: 2}, func(s schemas.Stream) bool {
		return s.Class == schemas.ClassList && s.Parent == "" && len(s.Key) > 0
	})
	for _, remove := range []bool{false, true} {
		require.NoError(t, p.Sandbox.SetFaults(sandbox.Fault{Kind: sandbox.FaultDrift, Probability: 0.2, Delete: remove}))
		rep, err := p.run(context.Background())
		require.NoError(t, err)
		for _, s := range rep.Streams {
			// An inserted row may push all rows of a short page to the next page. That looks like a list that repeats
			// its pages, which is an error. So StatusFailed is allowed.
			require.Contains(t, []Status{StatusComplete, StatusHeld, StatusFailed}, s.Status, "%v", s.Err)
			require.Zero(t, p.falsely(s.Stream, s.Table), "existing rows of %s that were marked as deleted", s.Stream)
		}
		p.again()
	}
	require.NoError(t, p.Sandbox.SetFaults())
	p.config.Options.ConfirmShrink = true // some short lists have lost all their rows
	p.config.Options.Full = true
	rep, err := p.run(context.Background())
	require.NoError(t, err)
	for i, s := range rep.Streams {
		if s.Status == StatusHeld && p.round(s.Stream) {
			require.Equal(t, p.distinct(p.config.Streams[i])+int(s.Missing), p.aliveRows(s.Table), s.Stream)
			continue
		}
		p.equalOne(p.config.Streams[i], s)
	}
}

func (p *platform) round(stream string) bool {
	p.t.Helper()
	certs := p.certificates(stream)
	var w witnesses
	require.NoError(p.t, json.Unmarshal([]byte(certs[len(certs)-1]["witnesses"]), &w))
	return w.Round
}
