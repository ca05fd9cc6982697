package pipeline

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

func TestSentinelComparesWholePassesOfOneStream(t *testing.T) {
	all := sourcetest.Records(1, 301)
	r := newRig(t, map[string]*sourcetest.List{"crm.leads": {Records: all, Size: 100}}, sourcetest.Stream("crm.leads"))
	require.Empty(t, r.must(StatusComplete).Streams[0].Notices)
	require.Empty(t, r.must(StatusComplete).Streams[0].Notices)
	require.Equal(t, 1, r.remembered(), "one row per stream, even if the source cannot be probed")

	r.source.Lists["crm.leads"].Records = sourcetest.Records(1, 151)
	r.source.Lists["crm.leads"].Total = true
	for range 2 {
		rep := r.must(StatusPartial)
		require.Equal(t, StatusHeld, rep.Streams[0].Status)
		require.Len(t, rep.Streams[0].Notices, 1)
		require.Equal(t, drift.Blocking, rep.Streams[0].Notices[0].Severity)
	}
	require.Equal(t, []string{
		"crm.leads blocking: count: 150 records arrived, and 300 in the previous pass",
		"crm.leads blocking: count: 150 records arrived, and 300 in the previous pass",
	}, drifts(r))

	r.config.Options.ConfirmShrink = true
	rep := r.must(StatusComplete)
	require.Equal(t, drift.Noted, rep.Streams[0].Notices[0].Severity)
	r.config.Options.ConfirmShrink = false
	require.Empty(t, r.must(StatusComplete).Streams[0].Notices)
}

func TestResumedPassIsNotCompared(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(1, 301), Size: 100}
	r := newRig(t, map[string]*sourcetest.List{"crm.leads": l}, sourcetest.Stream("crm.leads"))
	r.must(StatusComplete)
	l.Fail = func(page int) error {
		if page == 3 {
			return errors.New("cable cut")
		}
		return nil
	}
	r.must(StatusFailed)
	l.Fail = nil
	r.restart(nil)
	require.Empty(t, r.must(StatusComplete).Streams[0].Notices)
}

func TestSentinelOverTheSandbox(t *testing.T) {
	for _, c := range []struct{ fault, want string }{
		{"crm.leads=field,field=email", "crm_leads email warned: vanished_field"},
		{"crm.leads=field,field=email,value=null", "crm_leads email warned: vanished_field"},
		{"crm.leads=field,field=email,as=e_mail", "crm_leads email warned: vanished_field, crm_leads e_mail noted: new_field"},
		{`crm.leads=field,field=order,value="x"`, "crm_leads _context__stage__order warned: type_mix, crm_leads order warned: type_mix"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			p := newPlatform(t, sandbox.Options{Seed: 1, Scale: 10, NoLimits: true}, func(s schemas.Stream) bool { return s.Name == "crm.leads" })
			require.Empty(t, p.must(StatusComplete).Streams[0].Notices)
			require.Empty(t, p.must(StatusComplete).Streams[0].Notices)
			f, err := sandbox.ParseFault(c.fault)
			require.NoError(t, err)
			require.NoError(t, p.Sandbox.SetFaults(f))
			rep := p.must(StatusComplete)
			require.Equal(t, c.want, noticesText(rep.Streams[0].Notices), "%v", rep.Streams[0].Notices)
			require.Len(t, drifts(p.rig), len(rep.Streams[0].Notices))
			require.Empty(t, p.must(StatusComplete).Streams[0].Notices, "reported once")
		})
	}
}

func TestSentinelIsSilentOverAnUnchangedSandbox(t *testing.T) {
	// The list of a month is empty on the first day of the month. A run learns nothing from it, so the next run tries again.
	p := newPlatform(t, sandbox.Options{Seed: 1, NoLimits: true}, func(s schemas.Stream) bool { return s.Months == (schemas.Months{}) })
	_, err := p.run(t.Context())
	require.NoError(t, err)
	before := p.memory.Rows(load.Conventions.Name)
	require.NotEmpty(t, before)
	rep, err := p.run(t.Context())
	require.NoError(t, err)
	for _, s := range rep.Streams {
		require.Empty(t, s.Notices, s.Stream)
	}
	require.ElementsMatch(t, before, p.memory.Rows(load.Conventions.Name), "nothing is learned twice")
}

func noticesText(all []drift.Notice) string {
	var out []string
	for _, n := range all {
		out = append(out, n.Table+" "+n.Column+" "+string(n.Severity)+": "+n.Kind)
	}
	return strings.Join(out, ", ")
}
