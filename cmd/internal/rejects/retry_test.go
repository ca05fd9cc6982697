package rejects

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/pipelinetest"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/cmd/internal/verify"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func retry(r *pipelinetest.Rig) RetryReport {
	r.T.Helper()
	rep, err := Retry(context.Background(), *r.Config)
	require.NoError(r.T, err)
	return rep
}

func accept(r *pipelinetest.Rig) AcceptReport {
	r.T.Helper()
	rep, err := Accept(context.Background(), *r.Config)
	require.NoError(r.T, err)
	return rep
}

// equal checks that the table equals the source.
func equal(r *pipelinetest.Rig) {
	r.T.Helper()
	rep, err := verify.Run(context.Background(), *r.Config, verify.Options{})
	require.NoError(r.T, err)
	require.Equal(r.T, verify.Equal, rep.Streams[0].Agreement, "%+v", rep.Streams[0])
}

func strictRig(t *testing.T, mode schemas.Mode) *pipelinetest.Rig {
	l := &sourcetest.List{Records: sourcetest.Records(0, 9), Size: 3, Total: true}
	r := pipelinetest.New(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Strict(sourcetest.Stream("crm_leads")))
	r.Mode(mode)
	l.Sized()
	r.Must(pipeline.StatusComplete)
	l.Sized(4, 6)
	r.Restart(nil)
	rep := r.Must(pipeline.StatusComplete)
	require.EqualValues(t, 2, rep.Streams[0].Counts.Rejected)
	require.Len(t, r.Unresolved(), 2)
	return r
}

// evolve removes the contract.
func evolve(r *pipelinetest.Rig) {
	r.Streams[0].Rules = schemas.Rules{}
	r.Restart(nil)
}

func TestRetryWritesRecordsThatFitNow(t *testing.T) {
	for _, mode := range []schemas.Mode{schemas.Merge, schemas.Append, schemas.Replace, schemas.History} {
		t.Run(string(mode), func(t *testing.T) {
			r := strictRig(t, mode)
			rep := retry(r)
			require.Equal(t, 75, rep.ExitCode())
			require.EqualValues(t, 2, rep.Streams[0].Rejected)
			require.Len(t, rep.Streams[0].Still, 2)
			require.Len(t, r.Unresolved(), 2)

			evolve(r)
			before := r.Cursor("crm_leads")
			pages := r.Source.Read
			rep = retry(r)
			require.Equal(t, []Retried{{Stream: "crm_leads", Destination: "warehouse", Retried: 2, Resolved: 2}}, rep.Streams)
			require.Equal(t, 0, rep.ExitCode())
			require.Equal(t, pages, r.Source.Read, "no requests to the source")
			require.Empty(t, r.Unresolved())
			require.NotEqual(t, before, r.Cursor("crm_leads"))
			rows := map[string]string{}
			for _, row := range r.Memory.Rows("crm_leads") {
				if row[schemas.ColValidTo] == "" && (mode != schemas.Append || row["size"] == "many") {
					rows[row["id"]] = row["size"]
				}
			}
			require.Equal(t, "many", rows["4"])
			require.Equal(t, "many", rows["6"])

			require.Empty(t, retry(r).Streams)
			r.Restart(nil)
			after := r.Must(pipeline.StatusComplete)
			require.EqualValues(t, 0, after.Streams[0].Counts.Rejected)
			equal(r)
		})
	}
}

func TestRetryDoesNotRestoreOldRecords(t *testing.T) {
	for _, name := range []string{"7", ""} {
		r := strictRig(t, schemas.Merge)
		for i := range r.Source.Lists["crm_leads"].Records {
			r.Source.Lists["crm_leads"].Records[i].Name = name
		}
		r.Restart(nil)
		r.Must(pipeline.StatusComplete)
		require.Empty(t, r.Unresolved(), "the pass resolves rejects that did not occur again")
		before := r.Memory.Rows("crm_leads")
		evolve(r)
		require.Empty(t, retry(r).Streams)
		require.Equal(t, before, r.Memory.Rows("crm_leads"))
	}
}

// A pass was interrupted, so it is unknown whether it would have stored the rejected records. They stay rejected
// until the pass ends.
func TestRetryDuringAnUnfinishedPass(t *testing.T) {
	r := strictRig(t, schemas.Merge)
	sourcetest.FailingAt(r.Source.Lists["crm_leads"], 2)
	r.Restart(nil)
	r.Must(pipeline.StatusFailed)
	evolve(r)
	rep := retry(r)
	require.EqualValues(t, 2, rep.Streams[0].Rejected)
	require.Contains(t, rep.Streams[0].Still[0].Reason, "run sync first")
	require.Len(t, r.Unresolved(), 2)
	r.Source.Lists["crm_leads"].Fail = nil
	r.Restart(nil)
	pages := r.Source.Read
	r.Must(pipeline.StatusComplete)
	require.Equal(t, 2+3, r.Source.Read-pages, "the pass continues, and a whole pass follows")
}

func TestPassContinuesAfterARetry(t *testing.T) {
	r := pipelinetest.New(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 9), Size: 3, Total: true, Numbers: true}}, sourcetest.Strict(sourcetest.Stream("crm_leads")))
	l := r.Source.Lists["crm_leads"]
	for i := range l.Records {
		l.Records[i].Name = ""
	}
	r.Must(pipeline.StatusComplete)
	l.Records[1].Name = "many"
	sourcetest.FailingAt(l, 3)
	r.Restart(nil)
	r.Must(pipeline.StatusFailed)
	evolve(r)
	require.EqualValues(t, 1, retry(r).Streams[0].Resolved, "the reject belongs to the unfinished pass")
	l.Fail = nil
	r.Restart(nil)
	pages := r.Source.Read
	r.Must(pipeline.StatusComplete)
	require.Equal(t, 1+3, r.Source.Read-pages)
	equal(r)
}

// If a retry fails at any step, none of its effects are stored.
func TestRetryFailsAtEveryStep(t *testing.T) {
	r, steps := strictRig(t, schemas.Merge), 0
	evolve(r)
	r.Restart(func(string) error { steps++; return nil })
	retry(r)
	for n := 1; n <= steps; n++ {
		r := strictRig(t, schemas.Merge)
		evolve(r)
		left := n
		r.Restart(func(string) error {
			if left--; left == 0 {
				return state.ErrLocked
			}
			return nil
		})
		rep, err := Retry(context.Background(), *r.Config)
		require.True(t, err != nil || rep.ExitCode() == 1, "step %d", n)
		for _, s := range rep.Streams {
			require.True(t, s.Error == "" || s.Resolved == 0, "step %d", n)
		}
		left2 := len(r.Unresolved())
		written := 0
		for _, row := range r.Memory.Rows("crm_leads") {
			if row["size"] == "many" {
				written++
			}
		}
		require.Equal(t, 2, left2+written, "step %d", n)
		r.Restart(nil)
		retry(r)
		require.Empty(t, r.Unresolved())
	}
}

func TestNextRunRetriesValues(t *testing.T) {
	s := sourcetest.Stream("crm_leads")
	s.Rules.Contract.Types = schemas.DiscardValue
	r := pipelinetest.New(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 9), Size: 3, Total: true, Numbers: true}}, s)
	l := r.Source.Lists["crm_leads"]
	for i := range l.Records {
		l.Records[i].Name = ""
	}
	r.Must(pipeline.StatusComplete)
	l.Records[4].Name = "many"
	r.Restart(nil)
	r.Must(pipeline.StatusComplete)
	require.Len(t, r.Unresolved(), 1)
	evolve(r)
	require.EqualValues(t, 1, retry(r).Streams[0].Waiting)
	r.Must(pipeline.StatusComplete)
	equal(r)
	require.Empty(t, r.Unresolved())
	require.Empty(t, retry(r).Streams)
}

// The reject of a record with masked values does not have the original record, so it cannot be retried.
func TestRetryRefusesIncompleteRecords(t *testing.T) {
	r := strictRig(t, schemas.Merge)
	masks := []schemas.MaskRule{{Column: "mail", Mask: schemas.Mask{Action: schemas.MaskHash}}}
	r.Streams[0].Rules.Masks = masks
	r.Restart(nil)
	r.Must(pipeline.StatusComplete)
	r.Streams[0].Rules = schemas.Rules{Masks: masks}
	r.Restart(nil)
	before := r.Memory.Rows("crm_leads")
	rep := retry(r)
	require.EqualValues(t, 2, rep.Streams[0].Rejected)
	require.Equal(t, "it was not stored in its original form; run sync to read it again", rep.Streams[0].Still[0].Reason)
	require.Equal(t, 75, rep.ExitCode())
	require.ElementsMatch(t, before, r.Memory.Rows("crm_leads"))
	require.Len(t, r.Unresolved(), 2)
	require.Zero(t, r.Must(pipeline.StatusComplete).Streams[0].Counts.Rejected)
	require.Empty(t, r.Unresolved())
}

func TestAcceptedRejectsDoNotKeepAStreamPartial(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 9), Size: 3, Total: true}
	l.Records[4].ID, l.Records[7].ID = -1, -2
	r := pipelinetest.New(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.Must(pipeline.StatusPartial)
	rep := accept(r)
	require.Equal(t, []Accepted{{Stream: "crm_leads", Destination: "warehouse", Records: 2}}, rep.Streams)
	require.Zero(t, rep.ExitCode())
	require.Empty(t, accept(r).Streams, "no reject is left to accept")
	for range 2 {
		r.Restart(nil)
		rep := r.Must(pipeline.StatusComplete)
		require.Equal(t, pipeline.Proven, rep.Streams[0].Verdict)
		require.EqualValues(t, 2, rep.Streams[0].Counts.Rejected)
	}
	l.Records = append(l.Records, sourcetest.Record{ID: -3})
	r.Restart(nil)
	after := r.Must(pipeline.StatusPartial)
	require.ErrorContains(t, after.Streams[0].Err, "1 record could not be stored", "this loss is not accepted")
	require.Len(t, r.Memory.Rows(load.Rejects.Name), 3)
}

// Rejects of earlier passes can be retried. But a reject stays if a later incremental pass may have found the row of
// its record unchanged.
func TestRetryAfterAnIncrementalPass(t *testing.T) {
	all := sourcetest.Records(0, 9)
	l := &sourcetest.List{Records: all, Size: 20, Numbers: true}
	for i := range all {
		all[i].Name = ""
	}
	r := pipelinetest.New(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Strict(sourcetest.Stream("crm_leads")))
	incremental := func(changed ...sourcetest.Record) pipeline.Report {
		l.Records, l.End = changed, extract.End{Rule: extract.RuleWindows, Windows: 1, Partial: true}
		r.Restart(nil)
		return r.Must(pipeline.StatusComplete)
	}
	r.Must(pipeline.StatusComplete)
	another, third := sourcetest.Record{ID: 501, Name: "many"}, sourcetest.Record{ID: 3, Name: "many"}
	require.EqualValues(t, 2, incremental(another, third).Streams[0].Counts.Rejected)
	incremental(third, sourcetest.Record{ID: 7}) // record 3 is rejected again
	require.Zero(t, incremental(sourcetest.Record{ID: 8}).Streams[0].Counts.Rejected, "the rejected records are no longer returned")
	retried := retry(r)
	require.Len(t, retried.Streams, 1)
	require.Zero(t, retried.Streams[0].Superseded)
	require.EqualValues(t, 2, retried.Streams[0].Rejected)
	require.Len(t, r.Unresolved(), 2, "one record is one reject")

	evolve(r)
	retried = retry(r)
	require.EqualValues(t, 1, retried.Streams[0].Resolved, "the record had no row")
	require.EqualValues(t, 1, retried.Streams[0].Rejected, "a later pass may have found its row unchanged")
	require.Contains(t, retried.Streams[0].Still[0].Reason, "sync --full")
	all[3] = third
	l.Records, l.End = append(all, another), extract.End{}
	r.Restart(nil)
	r.Must(pipeline.StatusComplete)
	equal(r)
	require.Empty(t, r.Unresolved(), "the pass resolves rejects that did not occur again")
	require.Empty(t, retry(r).Streams)
}

// shelf is a server whose list can be filtered by the time of the last change. The filter includes records with exactly
// the requested time.
type shelf struct {
	mu    sync.Mutex
	clock time.Time
	rows  []item
	asked int // requests without the filter
}

type item struct {
	ID      int    `json:"id"`
	Size    any    `json:"size,omitempty"`
	Updated string `json:"updated_at"`

	at time.Time
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(time.Second)
	rows := slices.Clone(s.rows)
	since, err := time.Parse(time.RFC3339, r.URL.Query().Get("updated_since"))
	if err == nil {
		rows = slices.DeleteFunc(rows, func(i item) bool { return i.at.Before(since) })
	} else {
		s.asked++
	}
	for i := range rows {
		rows[i].Updated = rows[i].at.Format(time.RFC3339)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Date", s.clock.Format(http.TimeFormat))
	_ = json.NewEncoder(w).Encode(map[string]any{"data": rows, "meta": map[string]any{"current_page": 1, "last_page": 1}})
}

// touch changes a record, or adds it.
func (s *shelf) touch(id int, size any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(time.Hour)
	i := slices.IndexFunc(s.rows, func(i item) bool { return i.ID == id })
	if i < 0 {
		i, s.rows = len(s.rows), append(s.rows, item{ID: id})
	}
	s.rows[i].at, s.rows[i].Size = s.clock, size
	s.clock = s.clock.Add(10 * time.Second)
}

// Rejects of incremental passes can be retried, even if a later pass has read the record again because the filter
// includes the record's time. The passes send real requests.
func TestRetryAfterIncrementalRequests(t *testing.T) {
	server := &shelf{clock: time.Now().UTC().Add(-48 * time.Hour).Truncate(time.Second)}
	for id := range 20 {
		server.touch(id+1, 1)
	}
	s := sourcetest.Stream("items")
	s.Name, s.Method, s.Path, s.Records = "crm.items", "GET", "/items", []string{"/data"}
	s.Incremental = schemas.Incremental{Field: "updated_at", Format: schemas.MomentRFC3339, Param: "updated_since", Lookback: time.Second}
	s.Stated = map[string]string{"incremental": schemas.StatedConfigured}
	s.Rules.Contract.Types = schemas.DiscardRow
	h := httptest.NewServer(server)
	t.Cleanup(h.Close)
	w, err := wire.New(wire.Options{Name: "test", BaseURL: h.URL, Allow: []wire.Route{{Method: "GET", Path: "/items"}}, Rate: budget.Rate{Limit: 100_000, Window: time.Second}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	client, err := extract.New(extract.Config{App: w, Selected: []schemas.Stream{s}, Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	r := pipelinetest.New(t, nil, s)
	r.Config.Source, r.Config.GroupRows, r.Config.GroupBytes = client, 0, 0
	once := func() pipeline.StreamReport {
		rep, err := pipeline.Run(t.Context(), *r.Config)
		require.NoError(t, err)
		return rep.Streams[0]
	}
	once()
	whole := server.asked
	server.touch(501, "many")
	server.touch(3, "many")
	require.EqualValues(t, 2, once().Counts.Rejected)
	server.touch(7, 1)
	once() // the time of record 3 is exactly the time in the filter, so the record is rejected again
	server.touch(8, 1)
	require.Zero(t, once().Counts.Rejected, "the rejected records are no longer returned")
	require.Equal(t, whole, server.asked, "all of these passes were incremental")
	retried := retry(r)
	require.Len(t, retried.Streams, 1)
	require.Zero(t, retried.Streams[0].Superseded)
	require.EqualValues(t, 2, retried.Streams[0].Rejected)
	require.Len(t, r.Unresolved(), 2, "one record is one reject")

	evolve(r)
	retried = retry(r)
	require.EqualValues(t, 1, retried.Streams[0].Resolved, "the record had no row")
	require.EqualValues(t, 1, retried.Streams[0].Rejected, "a later pass may have found its row unchanged")
	require.Contains(t, retried.Streams[0].Still[0].Reason, "sync --full")
	once()
	require.Empty(t, r.Unresolved(), "the pass resolves rejects that did not occur again")
	require.Empty(t, retry(r).Streams)
	equal(r)
}
