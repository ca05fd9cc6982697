package pipeline

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

type prober struct {
	*sourcetest.Source
	say func(asked int) (extract.Convention, error)

	mu    sync.Mutex
	asked map[string]int
}

func (p *prober) Negotiate(_ context.Context, s schemas.Stream) (extract.Convention, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[s.Name]++
	return p.say(p.asked[s.Name])
}

func of(t *testing.T, s schemas.Stream, key ...string) extract.Convention {
	t.Helper()
	c := extract.Convention{
		LearnedAt: time.Now().UTC(), Requests: 6, Located: true, Records: "/data", Key: key,
		Facts: []extract.Fact{{About: extract.FactRecords, Value: "/data", From: extract.Learned}},
	}.About(s)
	require.True(t, c.Fits(s))
	return c
}

func (r *rig) probed(say func(asked int) (extract.Convention, error)) *prober {
	p := &prober{Source: r.source, say: say, asked: map[string]int{}}
	r.config.Source = p
	return p
}

func (r *rig) remembered() int { return len(r.memory.Rows(load.Conventions.Name)) }

func TestEndpointIsProbedOnce(t *testing.T) {
	s := sourcetest.Keyless("crm.leads")
	r := newRig(t, map[string]*sourcetest.List{"crm.leads": {Records: sourcetest.Records(1, 8), Size: 3}}, s)
	p := r.probed(func(int) (extract.Convention, error) { return of(t, s, "id"), nil })
	first := r.must(StatusComplete)
	require.Equal(t, 1, p.asked["crm.leads"])
	require.Equal(t, 3*first.Streams[0].Passes+6, first.Requests, "the requests of the probes are counted")
	require.Equal(t, 1, r.remembered())
	require.Len(t, r.alive("crm.leads"), 7)
	tables, err := r.memory.Tables(context.Background(), "crm.leads")
	require.NoError(t, err)
	require.Equal(t, []string{"id"}, tables[0].Key, "the key that was learned")

	before := r.memory.Rows(load.Conventions.Name)
	r.restart(nil)
	second := r.must(StatusComplete)
	require.Equal(t, 1, p.asked["crm.leads"])
	require.Zero(t, second.Streams[0].Counts.Written)
	require.Equal(t, before, r.memory.Rows(load.Conventions.Name), "nothing new, so nothing is written")

	config := r.config
	config.Destinations = []Destination{{Name: "warehouse", Destination: r.memory}}
	settled, err := Settle(context.Background(), config)
	require.NoError(t, err)
	require.Equal(t, []string{"id"}, settled[0].Key, "the key that was learned")
	require.Equal(t, 1, p.asked["crm.leads"])

	r.config.Options.Full = true
	r.must(StatusComplete)
	require.Equal(t, 2, p.asked["crm.leads"], "a full reading probes again")
}

func TestConventionIsCommittedWithTheFirstRows(t *testing.T) {
	s := sourcetest.Stream("crm.leads")
	r := newRig(t, map[string]*sourcetest.List{"crm.leads": {Records: sourcetest.Records(1, 8), Size: 3, Fail: func(page int) error {
		if page == 3 {
			return errors.New("cable cut")
		}
		return nil
	}}}, s)
	p := r.probed(func(int) (extract.Convention, error) { return of(t, s), nil })
	r.must(StatusFailed)
	require.Len(t, r.alive("crm.leads"), 6)
	require.Equal(t, 1, r.remembered())

	r.source.Lists["crm.leads"].Fail = nil
	r.restart(nil)
	r.must(StatusComplete)
	require.Equal(t, 1, p.asked["crm.leads"])
}

func TestNewDestinationGetsTheConvention(t *testing.T) {
	s := sourcetest.Stream("crm.leads")
	r := newRig(t, map[string]*sourcetest.List{"crm.leads": {Records: sourcetest.Records(1, 8), Size: 3}}, s)
	p := r.probed(func(int) (extract.Convention, error) { return of(t, s), nil })
	r.must(StatusComplete)
	other := loadtest.NewMemory(nil)
	r.config.Destinations = []Destination{{Name: "bi", Destination: other}, {Name: "warehouse", Destination: r.memory}}
	r.must(StatusComplete)
	require.Equal(t, 1, p.asked["crm.leads"])
	require.Len(t, other.Rows(load.Conventions.Name), 1)
	require.Equal(t, r.memory.Rows(load.Conventions.Name)[0]["convention"], other.Rows(load.Conventions.Name)[0]["convention"])
}

func TestChangedEndpointIsProbedAgainOnce(t *testing.T) {
	s := sourcetest.Stream("crm.leads")
	moved := &wire.Error{Class: wire.Malformed, Message: "shape changed", Err: extract.ErrShape}
	broken := true
	r := newRig(t, map[string]*sourcetest.List{"crm.leads": {Records: sourcetest.Records(1, 8), Size: 3, Fail: func(page int) error {
		if page == 2 && broken {
			return moved
		}
		return nil
	}}}, s)
	p := r.probed(func(asked int) (extract.Convention, error) {
		c := of(t, s)
		if asked == 2 {
			c.Facts[0].Value, broken = "/items", false
		}
		return c, nil
	})
	rep := r.must(StatusComplete)
	require.Equal(t, 2, p.asked["crm.leads"])
	require.Len(t, r.alive("crm.leads"), 7)
	require.Len(t, rep.Streams[0].Notices, 1)
	n := rep.Streams[0].Notices[0]
	require.Equal(t, drift.Warned, n.Severity)
	require.Contains(t, n.Reason, "records: now /items, before /data")
	require.Contains(t, drifts(r), n.Table+" warned: envelope: "+n.Reason)

	broken = true
	p.say = func(int) (extract.Convention, error) { return of(t, s), nil }
	r.must(StatusFailed)
	require.Equal(t, 3, p.asked["crm.leads"], "a run probes an endpoint again at most once")
}

func TestEmptyListIsProbedAgainWithItsFirstRecords(t *testing.T) {
	s := sourcetest.Keyless("crm.leads")
	r := newRig(t, map[string]*sourcetest.List{"crm.leads": {}}, s)
	p := r.probed(func(asked int) (extract.Convention, error) {
		c := of(t, s, "id")
		if asked == 1 {
			c.Located, c.Key, c.Facts[0].Value = false, nil, ""
		}
		return c, nil
	})
	r.must(StatusComplete)
	before := r.memory.Rows(load.Conventions.Name)
	r.must(StatusComplete)
	require.Equal(t, 1, p.asked["crm.leads"], "the list is still empty")
	require.Equal(t, before, r.memory.Rows(load.Conventions.Name))

	r.source.Lists["crm.leads"].Records = sourcetest.Records(1, 4)
	rep := r.must(StatusComplete)
	require.Equal(t, 2, p.asked["crm.leads"])
	require.Empty(t, rep.Streams[0].Notices, "no notice")
	tables, err := r.memory.Tables(context.Background(), "crm.leads")
	require.NoError(t, err)
	require.Equal(t, []string{"id"}, tables[0].Key)
	require.Len(t, r.alive("crm.leads"), 3)
	r.must(StatusComplete)
	require.Equal(t, 2, p.asked["crm.leads"])
}

func TestInconclusiveProbesAreNotStored(t *testing.T) {
	s := sourcetest.Keyless("crm.leads")
	r := newRig(t, map[string]*sourcetest.List{"crm.leads": {}}, s)
	p := r.probed(func(int) (extract.Convention, error) {
		c := of(t, s)
		c.Open, c.Located = true, false
		return c, nil
	})
	r.must(StatusComplete)
	before := r.memory.Rows(load.Conventions.Name)
	r.must(StatusComplete)
	require.Equal(t, 2, p.asked["crm.leads"], "each run probes again")
	require.Equal(t, before, r.memory.Rows(load.Conventions.Name))
}

func TestUnexplainedChangeHoldsTheStream(t *testing.T) {
	s, other := sourcetest.Stream("crm.leads"), sourcetest.Stream("crm.deals")
	r := newRig(t, map[string]*sourcetest.List{"crm.leads": {Records: sourcetest.Records(1, 8), Size: 3}, "crm.deals": {Records: sourcetest.Records(1, 3)}}, s, other)
	p := r.probed(nil)
	p.say = func(int) (extract.Convention, error) { return of(t, s), nil }
	r.must(StatusComplete)

	r.source.Lists["crm.leads"].Fail = func(int) error {
		return &wire.Error{Class: wire.Malformed, Message: "shape changed", Err: extract.ErrShape}
	}
	p.say = func(int) (extract.Convention, error) {
		return extract.Convention{Requests: 4}, errors.New("no place in the answer holds records")
	}
	rep := r.must(StatusPartial)
	leads, deals := rep.Streams[0], rep.Streams[1]
	require.Equal(t, StatusHeld, leads.Status)
	require.ErrorContains(t, leads.Err, "no place in the answer holds records")
	require.ErrorContains(t, leads.Err, "penstock explain crm.leads")
	require.Equal(t, 4, leads.Requests, "the probes")
	require.Equal(t, StatusComplete, deals.Status)
	require.Len(t, r.alive("crm.leads"), 7, "the table is kept")
	require.Equal(t, drift.Blocking, leads.Notices[0].Severity)
	require.Contains(t, drifts(r), "crm.leads blocking: envelope: "+leads.Notices[0].Reason)

	r.source.Lists["crm.leads"].Fail = nil
	r.restart(nil)
	p.say = nil
	require.Equal(t, int64(7), r.must(StatusComplete).Streams[0].Counts.Unchanged, "the stream continues when the source is back")
}

func TestUnexplainedEndpointEndsOnlyItsStream(t *testing.T) {
	s, other := sourcetest.Stream("crm.leads"), sourcetest.Stream("crm.deals")
	r := newRig(t, map[string]*sourcetest.List{"crm.leads": {}, "crm.deals": {Records: sourcetest.Records(1, 3)}}, s, other)
	r.probed(func(asked int) (extract.Convention, error) {
		return of(t, other), nil
	}).say = nil
	r.config.Source.(*prober).say = func(int) (extract.Convention, error) {
		return extract.Convention{Requests: 2}, errors.New("two places hold records")
	}
	rep := r.must(StatusFailed)
	require.ErrorContains(t, rep.Streams[0].Err, "crm.leads: two places hold records")
	require.Zero(t, r.source.Passes["crm.leads"], "nothing is guessed")
}

func TestTableKeepsItsKey(t *testing.T) {
	s := sourcetest.Keyless("crm.leads")
	r := newRig(t, map[string]*sourcetest.List{"crm.leads": {Records: sourcetest.Records(1, 4)}}, s)
	r.must(StatusComplete)
	p := r.probed(func(int) (extract.Convention, error) { return of(t, s, "id"), nil })
	r.must(StatusComplete)
	require.Equal(t, 1, p.asked["crm.leads"])
	tables, err := r.memory.Tables(context.Background(), "crm.leads")
	require.NoError(t, err)
	require.Empty(t, tables[0].Key)

	r = newRig(t, map[string]*sourcetest.List{"crm.leads": {Records: sourcetest.Records(1, 4)}}, s)
	p = r.probed(func(int) (extract.Convention, error) { return of(t, s, "id"), nil })
	r.must(StatusComplete)
	p.say = func(int) (extract.Convention, error) { return of(t, s, "name"), nil }
	r.config.Options.Full = true
	rep := r.must(StatusPartial)
	require.Equal(t, StatusHeld, rep.Streams[0].Status)
	require.ErrorContains(t, rep.Streams[0].Err, "identified by id, but the records seem to be identified by name")
}

func TestRememberReplacesConventions(t *testing.T) {
	s := sourcetest.Stream("crm.leads")
	r := newRig(t, map[string]*sourcetest.List{"crm.leads": {Records: sourcetest.Records(1, 8)}}, s)
	r.probed(func(int) (extract.Convention, error) { return of(t, s), nil })
	r.must(StatusComplete)
	c := of(t, s)
	c.Records = "/result"
	config := r.config
	config.Destinations = []Destination{{Name: "warehouse", Destination: r.memory}}
	require.NoError(t, Remember(context.Background(), config, map[string]extract.Convention{"crm.leads": c}))
	all, err := Recall(context.Background(), r.memory, "nightly")
	require.NoError(t, err)
	require.Equal(t, "/result", all["crm.leads"].Records)
	require.NotNil(t, all["crm.leads"].Profile, "the profile stays")
}

func drifts(r *rig) []string {
	var all []string
	for _, row := range r.memory.Rows(load.Changes.Name) {
		if row["action"] == load.ActionDrift {
			all = append(all, row["table"]+row["column"]+" "+row["reason"])
		}
	}
	return all
}
