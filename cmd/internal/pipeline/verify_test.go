package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func (r *rig) verify(o VerifyOptions) VerifyReport {
	r.t.Helper()
	c := r.config
	if c.Destinations == nil {
		c.Destinations = []Destination{{Name: "warehouse", Destination: r.memory}}
	}
	rep, err := Verify(context.Background(), c, o)
	require.NoError(r.t, err)
	return rep
}

func TestVerifyFindsDifferences(t *testing.T) {
	for _, compared := range []int64{0, 4} {
		l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
		r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
		r.config.limits.compared = compared
		r.must(StatusComplete)
		rep := r.verify(VerifyOptions{})
		require.Equal(t, 0, rep.ExitCode())
		require.Equal(t, 3, rep.Requests)
		require.Equal(t, []Verified{{
			Stream: "crm_leads", Destination: "warehouse", Agreement: Equal, Records: 25, Rows: 25, Requests: 3,
		}}, rep.Streams)

		before, cursor := r.memory.Rows("crm_leads"), r.cursor("crm_leads")
		l.Records = sourcetest.Records(2, 30)
		l.Records[5].Name = "changed"
		rep = r.verify(VerifyOptions{})
		require.Equal(t, 1, rep.ExitCode())
		require.Equal(t, Verified{
			Stream: "crm_leads", Destination: "warehouse", Agreement: Different, Records: 28, Rows: 25, Requests: 3,
			Missing: 5, Extra: 2, Differing: 1,
			List: []Difference{
				{RowDiffers, "crm_leads", "7"}, {RowExtra, "crm_leads", "0"}, {RowExtra, "crm_leads", "1"},
				{RowMissing, "crm_leads", "25"}, {RowMissing, "crm_leads", "26"}, {RowMissing, "crm_leads", "27"},
				{RowMissing, "crm_leads", "28"}, {RowMissing, "crm_leads", "29"},
			},
		}, rep.Streams[0])
		require.Equal(t, before, r.memory.Rows("crm_leads"))
		require.Equal(t, cursor, r.cursor("crm_leads"))

		rep = r.verify(VerifyOptions{Keys: 3})
		require.Len(t, rep.Streams[0].List, 3)
		require.EqualValues(t, 5, rep.Streams[0].Missing, "differences that are not in the list are counted")
	}
}

func (r *rig) cursor(stream string) string {
	at, err := r.memory.Cursor(context.Background(), state.Key{Pipeline: r.config.Name, Stream: stream})
	require.NoError(r.t, err)
	return string(at)
}

func TestVerifyInEveryMode(t *testing.T) {
	for _, mode := range []schemas.Mode{schemas.Merge, schemas.Append, schemas.Replace, schemas.History} {
		for _, s := range []schemas.Stream{sourcetest.Stream("crm_leads"), sourcetest.Keyless("crm_leads")} {
			t.Run(fmt.Sprint(mode, s.Key), func(t *testing.T) {
				l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
				r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, s)
				r.mode(mode)
				r.must(StatusComplete)
				l.Records = append(sourcetest.Records(3, 25), sourcetest.Records(40, 43)...)
				l.Records[4].Name = "changed"
				r.restart(nil)
				rep := r.verify(VerifyOptions{})
				extra := 3
				switch {
				case mode == schemas.Append:
					extra = 0
				case len(s.Key) == 0:
					extra = 4
				}
				require.EqualValues(t, extra, rep.Streams[0].Extra, "the table is compared before the run")
				require.EqualValues(t, 4, rep.Streams[0].Missing+rep.Streams[0].Differing)
				r.must(StatusComplete)
				rep = r.verify(VerifyOptions{})
				require.Equal(t, Equal, rep.Streams[0].Agreement, "%+v", rep.Streams[0])
				require.EqualValues(t, 25, rep.Streams[0].Rows)

				l.Records[4].Name = "n7" // the earlier value: in mode append the table has it as an old version
				require.Equal(t, mode == schemas.Append && len(s.Key) == 0, r.verify(VerifyOptions{}).Streams[0].Agreement == Equal)
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
	r := newRig(t, lists, streams...)
	r.must(StatusComplete)
	rep := r.verify(VerifyOptions{Requests: 5})
	require.Equal(t, 75, rep.ExitCode(), "not compared is not equal")
	require.Equal(t, 5, rep.Requests)
	require.Equal(t, []Agreement{Equal, Unchecked, Unchecked}, []Agreement{rep.Streams[0].Agreement, rep.Streams[1].Agreement, rep.Streams[2].Agreement})
	require.ErrorIs(t, rep.Streams[2].Err, errBudget)

	rep = r.verify(VerifyOptions{Requests: 3, Streams: []string{"crm_list1"}})
	require.Equal(t, 0, rep.ExitCode())
	require.Len(t, rep.Streams, 1)
	_, err := Verify(context.Background(), r.config, VerifyOptions{Streams: []string{"crm_lits"}})
	require.Error(t, err)
}

func TestVerifyOfSeveralDestinations(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.must(StatusComplete)
	r.config.Destinations = []Destination{{"warehouse", r.memory}, {"lake", loadtest.NewMemory(nil)}}
	rep := r.verify(VerifyOptions{})
	require.Equal(t, 3, rep.Requests, "one reading for all destinations")
	require.Equal(t, Equal, rep.Streams[0].Agreement)
	require.Equal(t, Different, rep.Streams[1].Agreement)
	require.EqualValues(t, 25, rep.Streams[1].Missing)
}

func TestVerifyOfAnUnreadableStream(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l, "crm_deals": l}, sourcetest.Stream("crm_leads"), sourcetest.Stream("crm_deals"))
	r.must(StatusComplete)
	broken := errors.New("connection reset")
	r.source.Lists["crm_leads"] = &sourcetest.List{Records: l.Records, Size: 10, Fail: func(int) error { return broken }}
	rep := r.verify(VerifyOptions{})
	require.Equal(t, 75, rep.ExitCode())
	require.Equal(t, Unchecked, rep.Streams[0].Agreement)
	require.ErrorIs(t, rep.Streams[0].Err, broken)
	require.Equal(t, Equal, rep.Streams[1].Agreement)
}

func TestVerifyOfAWindow(t *testing.T) {
	s := sourcetest.Stream("hr_attendance_history")
	s.Window = true
	l := &sourcetest.List{Records: sourcetest.Records(0, 30), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{s.Name: l}, s)
	r.must(StatusComplete)
	l.Records = sourcetest.Records(20, 30)
	require.Equal(t, Equal, r.verify(VerifyOptions{}).Streams[0].Agreement)
}

func TestSandboxVerify(t *testing.T) {
	p := newPlatform(t, sandbox.Options{NoLimits: true}, func(schemas.Stream) bool { return true })
	p.must(StatusComplete)
	p.again()
	rep := p.verify(VerifyOptions{})
	var rows int64
	for _, s := range rep.Streams {
		require.Equal(t, Equal, s.Agreement, "%+v", s)
		rows += s.Rows
	}
	require.Greater(t, rows, int64(1000))
	require.Equal(t, 0, rep.ExitCode())

	touched := p.sandbox.Touch(0.1)
	require.Positive(t, touched)
	p.again()
	rep = p.verify(VerifyOptions{})
	require.Equal(t, 1, rep.ExitCode())
	p.again()
	p.must(StatusComplete)
	p.again()
	require.Equal(t, 0, p.verify(VerifyOptions{}).ExitCode())
}

func TestVerifyOfAListWithGaps(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 9), Size: 3, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.must(StatusComplete)
	l.Records = slices.Delete(l.Records, 4, 5)
	l.End.Gaps = []extract.Gap{{At: "page 2", First: 4, Rows: 1, Status: 500}}
	rep := r.verify(VerifyOptions{})
	require.Equal(t, Unchecked, rep.Streams[0].Agreement)
	require.ErrorContains(t, rep.Streams[0].Err, "page 2")
	require.Equal(t, 75, rep.ExitCode())
}
