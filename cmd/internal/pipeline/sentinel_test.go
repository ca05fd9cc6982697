package pipeline

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

func shown(rows, filled int64, kind string) *Profile {
	c := map[string]ColumnProfile{"id": {rows, "int64"}}
	if filled > 0 {
		c["email"] = ColumnProfile{filled, kind}
	}
	return &Profile{At: time.Now(), Tables: map[string]TableProfile{"crm_leads": {rows, c}}}
}

func TestNotices(t *testing.T) {
	t.Parallel()
	paged, child, childless := shown(1000, 990, "text"), shown(100, 90, "text"), shown(100, 90, "text")
	paged.Page = 50
	other := *paged
	other.Page = 20
	child.Tables["crm_leads__items"] = TableProfile{300, map[string]ColumnProfile{"sku": {300, "text"}}}
	for _, c := range []struct {
		name        string
		before, now *Profile
		want        string
	}{
		{"nothing", shown(1000, 990, "text"), shown(1010, 992, "text"), ""},
		{"first time", nil, shown(1000, 990, "text"), ""},
		{"vanished", shown(1000, 990, "text"), shown(1000, 0, ""), "warned vanished_field email"},
		{"vanished, rare", shown(1000, 50, "text"), shown(1000, 0, ""), "noted vanished_field email"},
		{"vanished, of few", shown(12, 12, "text"), shown(12, 0, ""), ""},
		{"new", shown(1000, 0, ""), shown(1000, 10, "text"), "noted new_field email"},
		{"text among numbers", shown(1000, 990, "int64"), shown(1000, 990, "text"), "warned type_mix email"},
		{"fractions among numbers", shown(1000, 990, "int64"), shown(1000, 990, "decimal(12,2)"), "noted type_mix email"},
		{"emptier", shown(1000, 990, "text"), shown(1000, 300, "text"), "warned null_rate email"},
		{"fuller", shown(1000, 300, "text"), shown(1000, 990, "text"), "noted null_rate email"},
		{"emptier, of few", shown(10, 9, "text"), shown(10, 5, "text"), ""},
		{"shorter", shown(1000, 990, "text"), shown(700, 693, "text"), "warned count "},
		{"a little shorter", shown(1000, 990, "text"), shown(920, 910, "text"), ""},
		{"short", shown(90, 80, "text"), shown(0, 0, ""), ""},
		{"longer", shown(1000, 990, "text"), shown(9000, 8900, "text"), "noted count "},
		{"another page", paged, &other, "noted page_size "},
		{"a child table vanished", child, childless, "warned vanished_field "},
		{"a child table came", childless, child, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, n := range drift(c.before, c.now, "crm_leads", usualTolerances) {
				got = append(got, string(n.Severity)+" "+n.Kind+" "+n.Column)
			}
			require.Equal(t, c.want, strings.Join(got, ", "))
		})
	}
}

// A very small table may change in any way, and rows may come and go at random, without a warning.
func TestNoFalseAlarms(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		small := func(name string) *Profile {
			rows := rapid.Int64Range(0, 13).Draw(t, name)
			return shown(rows, rapid.Int64Range(0, rows).Draw(t, name+" filled"), "text")
		}
		for _, n := range drift(small("before"), small("now"), "crm_leads", usualTolerances) {
			require.Equal(t, Noted, n.Severity, n.Reason)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0, 1).Draw(t, "share")
		chance := func(name string) *Profile {
			rows := rapid.Int64Range(200, 300).Draw(t, name)
			var filled int64
			for range rows {
				if rapid.Float64Range(0, 1).Draw(t, "row") < share {
					filled++
				}
			}
			return shown(rows, filled, "text")
		}
		before, now := chance("before"), chance("now")
		for _, n := range drift(before, now, "crm_leads", usualTolerances) {
			require.True(t, n.Severity == Noted || n.Kind == NoticeCount, n.Reason)
		}
	})
}

func TestSentinelComparesWholePassesOfOneStream(t *testing.T) {
	all := records(1, 301)
	r := newRig(t, map[string]*list{"crm.leads": {records: all, size: 100}}, stream("crm.leads"))
	require.Empty(t, r.must(StatusComplete).Streams[0].Notices)
	require.Empty(t, r.must(StatusComplete).Streams[0].Notices)
	require.Equal(t, 1, r.remembered(), "one row per stream, even if the source cannot be probed")

	r.source.lists["crm.leads"].records = records(1, 151)
	r.source.lists["crm.leads"].total = true
	for range 2 {
		rep := r.must(StatusPartial)
		require.Equal(t, StatusHeld, rep.Streams[0].Status)
		require.Len(t, rep.Streams[0].Notices, 1)
		require.Equal(t, Blocking, rep.Streams[0].Notices[0].Severity)
	}
	require.Equal(t, []string{
		"crm.leads blocking: count: 150 records arrived, and 300 in the previous pass",
		"crm.leads blocking: count: 150 records arrived, and 300 in the previous pass",
	}, drifts(r))

	r.config.Options.ConfirmShrink = true
	rep := r.must(StatusComplete)
	require.Equal(t, Noted, rep.Streams[0].Notices[0].Severity)
	r.config.Options.ConfirmShrink = false
	require.Empty(t, r.must(StatusComplete).Streams[0].Notices)
}

func TestResumedPassIsNotCompared(t *testing.T) {
	l := &list{records: records(1, 301), size: 100}
	r := newRig(t, map[string]*list{"crm.leads": l}, stream("crm.leads"))
	r.must(StatusComplete)
	l.fail = func(page int) error {
		if page == 3 {
			return errors.New("cable cut")
		}
		return nil
	}
	r.must(StatusFailed)
	l.fail = nil
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
			require.NoError(t, p.sandbox.SetFaults(f))
			rep := p.must(StatusComplete)
			require.Equal(t, c.want, noticesText(rep.Streams[0].Notices), "%v", rep.Streams[0].Notices)
			require.Len(t, drifts(p.rig), len(rep.Streams[0].Notices))
			require.Empty(t, p.must(StatusComplete).Streams[0].Notices, "reported once")
		})
	}
}

func TestSentinelIsSilentOverAnUnchangedSandbox(t *testing.T) {
	p := newPlatform(t, sandbox.Options{Seed: 1, NoLimits: true}, func(schemas.Stream) bool { return true })
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

func noticesText(all []Notice) string {
	var out []string
	for _, n := range all {
		out = append(out, n.Table+" "+n.Column+" "+string(n.Severity)+": "+n.Kind)
	}
	return strings.Join(out, ", ")
}
