package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// Among records that a filter leaves out, duplicates cannot be detected. So the list's total no longer proves
// anything.
func TestFilterIsRecordedInTheCertificate(t *testing.T) {
	s := sourcetest.Stream("crm_leads")
	least := "10"
	s.Rules.Filter = []schemas.Condition{{Column: "id", Min: &least}}
	l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, s)
	rep := r.must(StatusComplete)
	require.Equal(t, Counts{Fetched: 15, Written: 15}, rep.Streams[0].Counts)
	require.Equal(t, sourcetest.Records(10, 25), r.alive("crm_leads"))
	certs := r.certificates("crm_leads")
	require.Equal(t, []Verdict{Consistent}, verdictsOf(certs))
	var w witnesses
	require.NoError(t, json.Unmarshal([]byte(certs[0]["witnesses"]), &w))
	require.EqualValues(t, 10, w.Filtered)
	require.EqualValues(t, 25, w.LastTotal)

	l.Records = sourcetest.Records(0, 22)
	r.restart(nil)
	rep = r.must(StatusComplete)
	require.Equal(t, 2, rep.Streams[0].Passes)
	require.Equal(t, Proven, rep.Streams[0].Verdict)
	require.Equal(t, sourcetest.Records(10, 22), r.alive("crm_leads"))

	most := "20"
	s.Rules.Filter = append(s.Rules.Filter, schemas.Condition{Column: "id", Max: &most})
	r.config.Streams = []schemas.Stream{s}
	r.restart(nil)
	r.must(StatusComplete)
	require.Equal(t, sourcetest.Records(10, 21), r.alive("crm_leads"))
}

func TestFrozenContractStopsItsStreamOnly(t *testing.T) {
	frozen := sourcetest.Stream("crm_leads")
	frozen.Rules.Contract.Types = schemas.Freeze
	l := &sourcetest.List{Records: sourcetest.Records(0, 9), Size: 3, Total: true, Numbers: true}
	for i := range l.Records {
		l.Records[i].Name = ""
	}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l, "crm_deals": {Records: sourcetest.Records(0, 9), Size: 3, Total: true}}, frozen, sourcetest.Stream("crm_deals"))
	r.must(StatusComplete)
	before := r.memory.Rows("crm_leads")
	l.Records[7].Name = "many"
	r.source.Lists["crm_deals"].Records = sourcetest.Records(0, 10)
	r.restart(nil)
	rep := r.must(StatusPartial)
	require.Equal(t, 75, rep.ExitCode())
	require.Equal(t, StatusHeld, rep.Streams[0].Status)
	_, ok := errors.AsType[*transform.ContractError](rep.Streams[0].Err)
	require.True(t, ok, "%v", rep.Streams[0].Err)
	require.ErrorContains(t, rep.Streams[0].Err, "size")
	require.ErrorContains(t, rep.Streams[0].Err, "contract under `schema`")
	require.Equal(t, before, r.memory.Rows("crm_leads"))
	require.Equal(t, StatusComplete, rep.Streams[1].Status)
	require.Len(t, r.alive("crm_deals"), 10)
}

// If the contract rejects a record, its existing row stays unchanged. Rows whose records are gone are deleted.
func TestRejectedRecordsAreNotMissing(t *testing.T) {
	for _, mode := range []schemas.Mode{schemas.Merge, schemas.Replace, schemas.History} {
		l := &sourcetest.List{Records: sourcetest.Records(0, 9), Size: 3, Total: true}
		r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Strict(sourcetest.Stream("crm_leads")))
		r.mode(mode)
		l.Sized()
		r.must(StatusComplete)
		l.Sized(4, 6)
		r.restart(nil)
		r.must(StatusComplete)
		l.Records, l.Size = l.Records[1:], 20
		r.restart(nil)
		rep := r.must(StatusComplete)
		require.EqualValues(t, 1, rep.Streams[0].Counts.Deleted, mode)
		require.EqualValues(t, 2, rep.Streams[0].Counts.Rejected, mode)
		require.Zero(t, rep.Streams[0].Missing)
		var left []string
		for _, row := range r.memory.Rows("crm_leads") {
			if row[schemas.ColDeletedAt] == "" && current(row) {
				left = append(left, row["id"])
			}
		}
		require.ElementsMatch(t, []string{"1", "2", "3", "4", "5", "6", "7", "8"}, left, mode)
	}
}

// If a rejected record has no key, it may belong to any row. So no row is deleted.
func TestRejectedRecordsWithoutAKeyKeepTheRows(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 9), Size: 3, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.must(StatusComplete)
	l.Records[4].ID = -1
	r.restart(nil)
	rep := r.must(StatusPartial)
	require.Equal(t, StatusHeld, rep.Streams[0].Status)
	require.Len(t, r.alive("crm_leads"), 9)
}

func TestForeignChangeStopsItsStreamInItsDestination(t *testing.T) {
	x := newTrio(t)
	x.into(nil, 0)
	foreign := &load.ForeignChange{Table: "crm_leads", Diff: []string{`column "name" is gone`}}
	applied := 0
	x.config.Destinations[1].Destination = &flaky{x.memories[1], func(op string) error {
		if op != "apply" {
			return nil
		}
		applied++
		return foreign
	}}
	rep := x.must(StatusPartial)
	require.Equal(t, 1, applied)
	require.Equal(t, StatusHeld, rep.Streams[1].Status)
	require.ErrorContains(t, rep.Streams[1].Err, `column "name" is gone`)
	require.ErrorContains(t, rep.Streams[1].Err, "penstock schema accept crm_leads")
	x.equal(0)
	x.equal(2)
}

func TestTypesDoNotDependOnTheOrderOfDestinations(t *testing.T) {
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		words, numbers := loadtest.NewMemory(nil), loadtest.NewMemory(nil)
		l := &sourcetest.List{Records: sourcetest.Records(0, 4), Size: 10, Total: true, Numbers: true}
		r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
		r.config.Destinations = []Destination{{"words", words}}
		r.must(StatusComplete)
		for i := range l.Records {
			l.Records[i].Name = ""
		}
		r.config.Destinations = []Destination{{"numbers", numbers}}
		r.must(StatusComplete)
		both := []Destination{{"words", words}, {"numbers", numbers}}
		r.config.Destinations = []Destination{both[order[0]], both[order[1]]}
		l.Records[0].ID = 7
		r.must(StatusComplete)
		for _, d := range both {
			tables, err := d.Tables(context.Background(), "crm_leads")
			require.NoError(t, err)
			f, _ := tables[0].Columns.FieldsByName("size")
			require.Equal(t, "text", schemas.TypeName(schemas.TypeOf(f[0])), d.Name)
		}
	}
}
