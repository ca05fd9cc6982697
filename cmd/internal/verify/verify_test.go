package verify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/pipelinetest"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func verified(r *pipelinetest.Rig, o Options) Report {
	r.T.Helper()
	rep, err := Run(context.Background(), *r.Config, o)
	require.NoError(r.T, err)
	return rep
}

func TestVerifyFindsDifferences(t *testing.T) {
	for _, compared := range []int64{0, 4} {
		l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
		r := pipelinetest.New(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
		r.Must(pipeline.StatusComplete)
		rep := verified(r, Options{compared: compared})
		require.Equal(t, 0, rep.ExitCode())
		require.Equal(t, 3, rep.Requests)
		require.Equal(t, []Result{{
			Stream: "crm_leads", Destination: "warehouse", Agreement: Equal, Records: 25, Rows: 25, Requests: 3,
		}}, rep.Streams)

		before, cursor := r.Memory.Rows("crm_leads"), r.Cursor("crm_leads")
		l.Records = sourcetest.Records(2, 30)
		l.Records[5].Name = "changed"
		rep = verified(r, Options{compared: compared})
		require.Equal(t, 1, rep.ExitCode())
		require.Equal(t, Result{
			Stream: "crm_leads", Destination: "warehouse", Agreement: Different, Records: 28, Rows: 25, Requests: 3,
			Missing: 5, Extra: 2, Differing: 1,
			List: []Difference{
				{RowDiffers, "crm_leads", "7"}, {RowExtra, "crm_leads", "0"}, {RowExtra, "crm_leads", "1"},
				{RowMissing, "crm_leads", "25"}, {RowMissing, "crm_leads", "26"}, {RowMissing, "crm_leads", "27"},
				{RowMissing, "crm_leads", "28"}, {RowMissing, "crm_leads", "29"},
			},
		}, rep.Streams[0])
		require.Equal(t, before, r.Memory.Rows("crm_leads"))
		require.Equal(t, cursor, r.Cursor("crm_leads"))

		rep = verified(r, Options{Keys: 3, compared: compared})
		require.Len(t, rep.Streams[0].List, 3)
		require.EqualValues(t, 5, rep.Streams[0].Missing, "differences that are not in the list are counted")
	}
}

// prober is a source whose streams are probed.
type prober struct {
	*sourcetest.Source
	asked int
}

func (p *prober) Negotiate(_ context.Context, s schemas.Stream) (extract.Convention, error) {
	p.asked++
	return extract.Convention{
		LearnedAt: time.Now().UTC(), Requests: 6, Located: true, Records: "/data", Key: []string{"id"},
		Facts: []extract.Fact{{About: extract.FactRecords, Value: "/data", From: extract.Learned}},
	}.About(s), nil
}

// A stream without a configured key is compared by the key that a run has learned. The endpoint is not probed again.
func TestVerifyByTheLearnedKey(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(1, 8), Size: 3}
	r := pipelinetest.New(t, map[string]*sourcetest.List{"crm.leads": l}, sourcetest.Keyless("crm.leads"))
	p := &prober{Source: r.Source}
	r.Config.Source = p
	r.Must(pipeline.StatusComplete)
	require.Equal(t, 1, p.asked)
	r.Restart(nil)
	rep := verified(r, Options{})
	require.Equal(t, Equal, rep.Streams[0].Agreement, "rows are compared by the key that was learned")
	l.Records[3].Name = "changed"
	rep = verified(r, Options{})
	require.Equal(t, []Difference{{RowDiffers, "crm.leads", "4"}}, rep.Streams[0].List)
	require.Equal(t, 1, p.asked)
}

func TestVerifyInEveryMode(t *testing.T) {
	for _, mode := range []schemas.Mode{schemas.Merge, schemas.Append, schemas.Replace, schemas.History} {
		for _, s := range []schemas.Stream{sourcetest.Stream("crm_leads"), sourcetest.Keyless("crm_leads")} {
			t.Run(fmt.Sprint(mode, s.Key), func(t *testing.T) {
				l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
				r := pipelinetest.New(t, map[string]*sourcetest.List{"crm_leads": l}, s)
				r.Mode(mode)
				r.Must(pipeline.StatusComplete)
				l.Records = append(sourcetest.Records(3, 25), sourcetest.Records(40, 43)...)
				l.Records[4].Name = "changed"
				r.Restart(nil)
				rep := verified(r, Options{})
				extra := 3
				switch {
				case mode == schemas.Append:
					extra = 0
				case len(s.Key) == 0:
					extra = 4
				}
				require.EqualValues(t, extra, rep.Streams[0].Extra, "the source has changed, but no run has loaded the changes yet")
				require.EqualValues(t, 4, rep.Streams[0].Missing+rep.Streams[0].Differing)
				r.Must(pipeline.StatusComplete)
				rep = verified(r, Options{})
				require.Equal(t, Equal, rep.Streams[0].Agreement, "%+v", rep.Streams[0])
				require.EqualValues(t, 25, rep.Streams[0].Rows)

				l.Records[4].Name = "n7" // the earlier name: in mode append, the table still has the old version of the row, with this name
				require.Equal(t, mode == schemas.Append && len(s.Key) == 0, verified(r, Options{}).Streams[0].Agreement == Equal)
			})
		}
	}
}

func TestVerifyWithARequestLimit(t *testing.T) {
	lists := map[string]*sourcetest.List{}
	var streams []schemas.Stream
	for i := range 3 {
		name := fmt.Sprintf("crm_list%d", i)
		lists[name] = &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
		streams = append(streams, sourcetest.Stream(name))
	}
	r := pipelinetest.New(t, lists, streams...)
	r.Must(pipeline.StatusComplete)
	rep := verified(r, Options{Requests: 5})
	require.Equal(t, 75, rep.ExitCode(), "a stream that was not compared does not count as equal")
	require.Equal(t, 5, rep.Requests)
	require.Equal(t, []Agreement{Equal, Unchecked, Unchecked}, []Agreement{rep.Streams[0].Agreement, rep.Streams[1].Agreement, rep.Streams[2].Agreement})
	require.ErrorIs(t, rep.Streams[2].Err, errBudget)

	r.Streams = r.Streams[1:2]
	rep = verified(r, Options{Requests: 3})
	require.Equal(t, 0, rep.ExitCode())
	require.Len(t, rep.Streams, 1)
}

func TestVerifyOfSeveralDestinations(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
	r := pipelinetest.New(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.Must(pipeline.StatusComplete)
	r.Destinations = []pipeline.Destination{{Name: "warehouse", Destination: r.Memory}, {Name: "lake", Destination: loadtest.NewMemory(nil)}}
	rep := verified(r, Options{})
	require.Equal(t, 3, rep.Requests, "one reading for all destinations")
	require.Equal(t, Equal, rep.Streams[0].Agreement)
	require.Equal(t, Different, rep.Streams[1].Agreement)
	require.EqualValues(t, 25, rep.Streams[1].Missing)
}

func TestVerifyOfAnUnreadableStream(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
	r := pipelinetest.New(t, map[string]*sourcetest.List{"crm_leads": l, "crm_deals": l}, sourcetest.Stream("crm_leads"), sourcetest.Stream("crm_deals"))
	r.Must(pipeline.StatusComplete)
	broken := errors.New("connection reset")
	r.Source.Lists["crm_leads"] = &sourcetest.List{Records: l.Records, Size: 10, Fail: func(int) error { return broken }}
	rep := verified(r, Options{})
	require.Equal(t, 75, rep.ExitCode())
	require.Equal(t, Unchecked, rep.Streams[0].Agreement)
	require.ErrorIs(t, rep.Streams[0].Err, broken)
	require.Equal(t, Equal, rep.Streams[1].Agreement)
}

func TestVerifyOfAWindow(t *testing.T) {
	s := sourcetest.Stream("hr_attendance_history")
	s.Window = true
	l := &sourcetest.List{Records: sourcetest.Records(0, 30), Size: 10, Total: true}
	r := pipelinetest.New(t, map[string]*sourcetest.List{s.Name: l}, s)
	r.Must(pipeline.StatusComplete)
	l.Records = sourcetest.Records(20, 30)
	require.Equal(t, Equal, verified(r, Options{}).Streams[0].Agreement)
}

func TestSandboxVerify(t *testing.T) {
	p := sourcetest.NewPlatform(t, sandbox.Options{NoLimits: true}, func(schemas.Stream) bool { return true })
	r := pipelinetest.New(t, nil, p.Streams...)
	again := func() { r.Restart(nil); r.Config.Source = p.Connect() }
	again()
	r.Must(pipeline.StatusComplete)
	again()
	rep := verified(r, Options{})
	var rows int64
	for _, s := range rep.Streams {
		require.Equal(t, Equal, s.Agreement, "%+v", s)
		rows += s.Rows
	}
	require.Greater(t, rows, int64(1000))
	require.Equal(t, 0, rep.ExitCode())

	touched := p.Sandbox.Touch(0.1)
	require.Positive(t, touched)
	again()
	rep = verified(r, Options{})
	require.Equal(t, 1, rep.ExitCode())
	again()
	r.Must(pipeline.StatusComplete)
	again()
	require.Equal(t, 0, verified(r, Options{}).ExitCode())
}

// The server refuses the list of parents, so the child stream cannot be compared. The comparison still ends.
func TestSandboxVerifyParentRefused(t *testing.T) {
	p := sourcetest.NewPlatform(t, sandbox.Options{
		NoLimits: true, Faults: []sandbox.Fault{{Match: "crm.deals", Kind: sandbox.FaultStatus, Status: http.StatusForbidden}},
	}, func(s schemas.Stream) bool { return s.Name == "crm.deals" || s.Name == "crm.deal" })
	r := pipelinetest.New(t, nil, p.Streams...)
	r.Config.Source = p.Connect()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // shorter than the time that a child stream waits for the pass over its parent
	defer cancel()
	rep, err := Run(ctx, *r.Config, Options{})
	require.NoError(t, err)
	require.Equal(t, "crm.deal", rep.Streams[1].Stream)
	_, ok := errors.AsType[*extract.ParentError](rep.Streams[1].Err)
	require.True(t, ok, "%v", rep.Streams[1].Err)
}

// Records that the stream's filter leaves out are not missing.
func TestVerifyOfAFilteredStream(t *testing.T) {
	s := sourcetest.Stream("crm_leads")
	least := "10"
	s.Rules.Filter = []schemas.Condition{{Column: "id", Min: &least}}
	r := pipelinetest.New(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 25), Size: 10, Total: true}}, s)
	r.Must(pipeline.StatusComplete)
	got := verified(r, Options{}).Streams[0]
	require.Equal(t, Equal, got.Agreement)
	require.EqualValues(t, 10, got.Filtered)
}

func TestVerifyOfAListWithGaps(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 9), Size: 3, Total: true}
	r := pipelinetest.New(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.Must(pipeline.StatusComplete)
	l.Records = slices.Delete(l.Records, 4, 5)
	l.End.Gaps = []extract.Gap{{At: "page 2", First: 4, Rows: 1, Status: 500}}
	rep := verified(r, Options{})
	require.Equal(t, Unchecked, rep.Streams[0].Agreement)
	require.ErrorContains(t, rep.Streams[0].Err, "page 2")
	require.Equal(t, 75, rep.ExitCode())
}
