package pipeline

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load"
)

func (r *rig) last(stream string) witnesses {
	r.t.Helper()
	certs := r.certificates(stream)
	require.NotEmpty(r.t, certs)
	var w witnesses
	require.NoError(r.t, json.Unmarshal([]byte(certs[len(certs)-1]["witnesses"]), &w))
	return w
}

func TestVerdictsSayWhatIsMissing(t *testing.T) {
	moving := func(pass int) []sourcetest.Record { return sourcetest.Records(0, 20+3*pass) }
	for name, tt := range map[string]struct {
		list sourcetest.List
		want string
	}{
		"a total": {sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true},
			"the source states 25 records, and 25 distinct records arrived"},
		"no witness": {sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, End: extract.End{Rule: extract.RuleEmptyPage}},
			"no total, ended with an empty page, read once"},
		"a second reading with other records": {sourcetest.List{Pages: moving, Size: 10, End: extract.End{Rule: extract.RuleEmptyPage, Counted: true}},
			"a second reading found 3 other records"},
		"a total that changes": {sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true, End: extract.End{Drift: extract.Drift{Moved: 2}}},
			"the total changed 2 times while the list was read"},
		"a gap": {sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, End: extract.End{Gaps: []extract.Gap{{At: "page 2", First: 16, Rows: 1, Status: 500, Message: "Server Error"}}}},
			"1 record cannot be read: record 17 of the list (page 2): 500: Server Error"},
		"an empty list": {sourcetest.List{Size: 10, End: extract.End{Rule: extract.RuleEmptyPage}},
			"no total, ended with an empty page, no records arrived (a user without permission gets none either), read once"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, map[string]*sourcetest.List{"crm_leads": &tt.list}, sourcetest.Stream("crm_leads"))
			rep, err := r.run(t.Context())
			require.NoError(t, err)
			require.Equal(t, tt.want, rep.Streams[0].Reasons)
			require.Equal(t, tt.want, r.last("crm_leads").Why)
		})
	}
}

// A contradicted pass stores its records and deletes nothing. The position in the cursor stays the same.
func TestContradictedPassKeepsTheCursor(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.must(StatusComplete)
	at := func() cursor.Position {
		c, err := r.memory.Cursor(t.Context(), (&run{Config: r.config}).Key("crm_leads"))
		require.NoError(t, err)
		p, err := cursor.Decode(c)
		require.NoError(t, err)
		return p
	}
	before := at()
	l.Records, l.Total = sourcetest.Records(3, 28), false
	l.End = extract.End{Rule: extract.RuleLastPage}
	l.States = 30
	for range 2 {
		r.restart(nil)
		rep := r.must(StatusPartial)
		require.Equal(t, Contradicted, rep.Streams[0].Verdict)
		require.Equal(t, 75, rep.ExitCode())
		require.Contains(t, rep.Streams[0].Err.Error(), "the source states 30 records, and 25 distinct records arrived")
		require.Equal(t, sourcetest.Records(0, 28), r.alive("crm_leads"))
		now := at()
		require.Equal(t, [3]any{before.Pass, before.Source, before.Ended}, [3]any{now.Pass, now.Source, now.Ended})
		require.NotEqual(t, before.TouchedBy, now.TouchedBy, "the stored cursor still changes")
		before.TouchedBy = now.TouchedBy
	}
	l.States, l.Total = 0, true
	r.restart(nil)
	r.must(StatusComplete)
	require.Equal(t, sourcetest.Records(3, 28), r.alive("crm_leads"))
	require.NotEqual(t, before.Source, at().Source)
}

func TestEmptyListIsHeldUntilConfirmed(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 300), Size: 100, End: extract.End{Rule: extract.RuleEmptyPage}}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.must(StatusComplete)
	l.Records = nil
	for range 2 {
		r.restart(nil)
		rep := r.must(StatusPartial)
		held, ok := errors.AsType[*HeldError](rep.Streams[0].Err)
		require.True(t, ok && held.Confirm, "%v", rep.Streams[0].Err)
		require.EqualValues(t, 300, rep.Streams[0].Missing)
		require.Len(t, r.alive("crm_leads"), 300)
	}
	r.restart(nil)
	r.config.Options.ConfirmShrink = true
	require.EqualValues(t, 300, r.must(StatusComplete).Streams[0].Counts.Deleted)
}

func TestGapsAreReported(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.must(StatusComplete)
	l.Records = append(sourcetest.Records(0, 16), sourcetest.Records(17, 24)...)
	l.Total, l.States = false, 25
	gap := extract.Gap{At: "page 2", First: 16, Rows: 1, After: "15", Before: "17", Status: 500, Message: "Server Error"}
	l.End = extract.End{Rule: extract.RuleLastPage, Gaps: []extract.Gap{gap}}
	r.restart(nil)
	rep := r.must(StatusPartial)
	require.Equal(t, []any{Contradicted, 75}, []any{rep.Streams[0].Verdict, rep.ExitCode()}, "record 24 is gone as well")
	l.States = 24 + 1
	l.Records = append(sourcetest.Records(0, 16), sourcetest.Records(17, 25)...)
	r.restart(nil)
	rep = r.must(StatusPartial)
	require.Equal(t, Unproven, rep.Streams[0].Verdict)
	require.Equal(t, 1, rep.Streams[0].Passes, "another reading would find no more records")
	require.Len(t, r.alive("crm_leads"), 25)
	require.Equal(t, []extract.Gap{gap}, r.last("crm_leads").Gaps)
	rejects := r.memory.Rows(load.Rejects.Name)
	require.NotEmpty(t, rejects)
	require.Equal(t, "the server did not return record 17 of the list (page 2), after key 15, before key 17: 500: Server Error", rejects[0]["reason"])

	l.Records, l.States, l.Total, l.End = sourcetest.Records(0, 25), 0, true, extract.End{}
	r.restart(nil)
	r.must(StatusComplete)
}

func TestWebsiteIsUnavailable(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.must(StatusComplete)
	l.Fail = func(int) error {
		return &wire.Error{Class: wire.NotData, Status: 200, Path: "/api/leads", Message: `body is HTML, not JSON: page titled "Dashboard"`}
	}
	r.restart(nil)
	rep := r.must(StatusPartial)
	require.Equal(t, StatusUnavailable, rep.Streams[0].Status)
	require.Equal(t, 75, rep.ExitCode())
	require.Len(t, r.alive("crm_leads"), 25)
	runs := r.memory.Rows(load.Runs.Name)
	require.Contains(t, runs[len(runs)-1]["counts"], `page titled \"Dashboard\"`)
	l.Fail = nil
	r.restart(nil)
	r.must(StatusComplete)
}

// If the twin, another stream with the same records, has a record that the list lacks, the pass is unproven. Nothing
// is deleted, even if the list has as many records as its total says.
func TestTwinsWitness(t *testing.T) {
	twin := &sourcetest.List{Records: sourcetest.Records(0, 26), Size: 10, Total: true}
	l := &sourcetest.List{Records: sourcetest.Records(0, 26), Size: 10, Total: true}
	main := sourcetest.Stream("crm_leads")
	main.Twin = "crm_all_leads"
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l, "crm_all_leads": twin}, main, sourcetest.Stream("crm_all_leads"))
	require.Equal(t, Proven, r.must(StatusComplete).Streams[0].Verdict)
	require.Equal(t, []string{"crm_all_leads", "crm_leads"}, r.source.Asked, "the twin is read first")
	require.Equal(t, &proof.Difference{Of: "crm_all_leads"}, r.last("crm_leads").Twin)

	l.Records = append(sourcetest.Records(0, 17), sourcetest.Records(19, 26)...)
	r.restart(nil)
	rep := r.must(StatusPartial)
	require.Equal(t, []any{Unproven, StatusHeld, 75}, []any{rep.Streams[0].Verdict, rep.Streams[0].Status, rep.ExitCode()})
	require.Contains(t, rep.Streams[0].Reasons, "crm_all_leads has 2 records (")
	require.Contains(t, rep.Streams[0].Reasons, ") that this list lacks")
	require.ElementsMatch(t, []string{"17", "18"}, r.last("crm_leads").Twin.Examples)
	require.Len(t, r.alive("crm_leads"), 26)
	require.Equal(t, StatusComplete, rep.Streams[1].Status, "the twin's list is complete")

	twin.Records = sourcetest.Records(0, 17)
	r.restart(nil)
	require.Equal(t, Proven, r.must(StatusComplete).Streams[0].Verdict, "a record that only the twin lacks is not missing")
	require.Contains(t, r.last("crm_leads").Note, "crm_all_leads lacks 7 records")
	require.Len(t, r.alive("crm_leads"), 24)
}
