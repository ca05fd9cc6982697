package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

type askable struct {
	*sourcetest.Source
	present func(id int) (bool, error)

	mu    sync.Mutex
	asked []int
}

func (a *askable) Record(_ context.Context, _ schemas.Stream, values map[string][]byte) ([]byte, int, error) {
	id, err := strconv.Atoi(string(values["id"]))
	if err != nil {
		return nil, 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, id)
	there, err := a.present(id)
	if !there {
		return nil, 1, err
	}
	return []byte("{}"), 1, err
}

func detail() schemas.Stream {
	return schemas.Stream{
		Name: "crm_lead", Class: schemas.ClassDetail, Method: "GET", Parent: "crm_leads", Enabled: true,
		Params: []schemas.Param{{Name: "id", In: "path", From: "/id"}},
	}
}

func TestMissingRowsAreRequestedOneByOne(t *testing.T) {
	gone := func(ids ...int) func(int) (bool, error) {
		return func(id int) (bool, error) { return !slices.Contains(ids, id), nil }
	}
	tests := []struct {
		name    string
		present func(id int) (bool, error)
		alive   []sourcetest.Record
		status  Status
		asked   int // maximum number of requests for the three missing records
		held    string
	}{
		{"all are gone", gone(0, 1, 2), sourcetest.Records(3, 28), StatusComplete, 3, ""},
		{"the source still has some of them", gone(0, 2), slices.Insert(sourcetest.Records(3, 28), 0, sourcetest.Record{ID: 1, Name: "n1"}), StatusPartial, 3, "of them: 2 are gone"},
		{"the source still has all of them", gone(), sourcetest.Records(0, 28), StatusPartial, 3, "of them: 0 are gone"},
		{"no record is found, not even one of the list", func(int) (bool, error) { return false, nil }, sourcetest.Records(0, 28), StatusPartial, 0, "3 rows are missing"},
		{"the source refuses access to the missing records", func(id int) (bool, error) {
			return id > 2, whenBelow(id, 3, &wire.Error{Class: wire.NotEntitled, Status: 403})
		}, sourcetest.Records(0, 28), StatusPartial, 3, "3 rows are missing"},
		{"the detail endpoint returns broken answers", func(id int) (bool, error) {
			return true, whenBelow(id, 3, &wire.Error{Class: wire.Malformed, Status: 200})
		}, sourcetest.Records(0, 28), StatusPartial, 3, "3 rows are missing"},
		{"one answer is broken", func(id int) (bool, error) {
			return id > 2, whenBelow(id, 1, errors.New("an answer without the record"))
		}, slices.Insert(sourcetest.Records(3, 28), 0, sourcetest.Record{ID: 0, Name: "n0"}), StatusPartial, 3, "of them: 2 are gone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, End: extract.End{Round: true}}
			r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
			source := &askable{Source: r.source, present: tt.present}
			r.config.Source, r.config.Catalogue = source, []schemas.Stream{sourcetest.Stream("crm_leads"), detail()}
			r.must(StatusComplete)
			require.Empty(t, source.asked)
			l.Records = sourcetest.Records(3, 28)
			r.restart(nil)
			rep := r.must(tt.status)
			require.Equal(t, tt.alive, r.alive("crm_leads"))
			below := 0
			for _, id := range source.asked {
				if id < 3 {
					below++
				}
			}
			require.LessOrEqual(t, below, tt.asked, "requested %v", source.asked)
			s := rep.Streams[0]
			require.EqualValues(t, 28-len(tt.alive), s.Counts.Deleted)
			require.EqualValues(t, len(tt.alive)-25, s.Missing)
			require.Equal(t, 3+len(source.asked), s.Requests)
			require.Equal(t, 25, int(s.Counts.Fetched), "the group is written twice, but counted once")
			if tt.held != "" {
				require.ErrorContains(t, s.Err, tt.held)
			}
			certs := r.certificates("crm_leads")
			var w witnesses
			require.NoError(t, json.Unmarshal([]byte(certs[len(certs)-1]["witnesses"]), &w))
			require.EqualValues(t, 28-len(tt.alive), w.NotFound)
		})
	}
}

func whenBelow(id, below int, err error) error {
	if id < below {
		return err
	}
	return nil
}

// If so many rows are missing that a person must decide, no record is requested.
func TestMissingRowRequestsAreLimited(t *testing.T) {
	for _, tt := range []struct {
		rows, left   int
		asked, alive int
	}{
		{5000, 4850, maxAsked + 2, 5050},
		{400, 250, 0, 550},
		{400, 0, 0, 400},
	} {
		l := &sourcetest.List{Records: sourcetest.Records(0, tt.rows), Size: 10_000, End: extract.End{Round: true}}
		r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
		source := &askable{Source: r.source, present: func(id int) (bool, error) { return id < tt.left || id >= tt.rows, nil }}
		r.config.Source, r.config.Catalogue = source, []schemas.Stream{detail()}
		r.must(StatusComplete)
		if l.Records = sourcetest.Records(0, tt.left); tt.left > 0 {
			l.Records = append(l.Records, sourcetest.Records(tt.rows, 2*tt.rows-tt.left)...)
		}
		r.restart(nil)
		r.must(StatusPartial)
		require.Len(t, source.asked, tt.asked)
		require.Len(t, r.alive("crm_leads"), tt.alive)
	}
}

func TestDestinationsShareMissingRowRequests(t *testing.T) {
	x := newTrio(t)
	source := &askable{Source: x.source, present: func(id int) (bool, error) { return id > 4, nil }}
	x.config.Source, x.config.Catalogue = source, []schemas.Stream{detail()}
	x.truth = sourcetest.Records(5, 30)
	x.source.Lists["crm_leads"] = &sourcetest.List{Records: x.truth, Size: 10, End: extract.End{Round: true}}
	x.into(nil, 0)
	x.must(StatusComplete)
	require.Len(t, source.asked, 7)
	for i := range 3 {
		x.equal(i)
	}
}

func TestUnsuitableDetailsAreNotUsed(t *testing.T) {
	for name, change := range map[string]func(*schemas.Stream, *schemas.Stream){
		"two keys":     func(s, _ *schemas.Stream) { s.Key = []string{"id", "name"} },
		"another list": func(_, d *schemas.Stream) { d.Parent = "crm_deals" },
		"two parameters": func(_, d *schemas.Stream) {
			d.Params = append(d.Params, schemas.Param{Name: "name", In: "path", From: "/name"})
		},
		"another field": func(_, d *schemas.Stream) { d.Params[0].From = "/name" },
		"a POST":        func(_, d *schemas.Stream) { d.Method = "POST" },
		"switched off":  func(_, d *schemas.Stream) { d.Enabled = false },
		"masked key": func(s, _ *schemas.Stream) {
			s.Rules.Masks = []schemas.MaskRule{{Column: "id", Mask: schemas.Mask{Action: schemas.MaskHash}}}
		},
	} {
		s, d := sourcetest.Stream("crm_leads"), detail()
		_, ok := s.Detail([]schemas.Stream{d})
		require.True(t, ok)
		change(&s, &d)
		_, ok = s.Detail([]schemas.Stream{d})
		require.False(t, ok, name)
	}
}

// dim is a source without totals. Each reading of its list omits one of the first records, each time a different one.
type dim struct {
	*extract.Client
	mu       sync.Mutex
	readings map[string]int
}

func newDim(s Source) *dim { return &dim{Client: s.(*extract.Client), readings: map[string]int{}} }

func (d *dim) Pages(ctx context.Context, s schemas.Stream, from state.Cursor) iter.Seq2[extract.Page, error] {
	d.mu.Lock()
	d.readings[s.Name]++
	hidden := 1 + d.readings[s.Name]%3
	d.mu.Unlock()
	return func(yield func(extract.Page, error) bool) {
		for page, err := range d.Client.Pages(ctx, s, from) {
			var all []json.RawMessage
			if err == nil {
				err = json.Unmarshal(page.Records, &all)
			}
			if len(all) > hidden && hidden > 0 {
				page.Records, _ = json.Marshal(slices.Delete(all, hidden, hidden+1))
				hidden = 0
			}
			if page.Total = -1; page.End != nil {
				end := *page.End
				end.FirstTotal, end.LastTotal, end.Reread = -1, -1, false
				page.End = &end
			}
			if !yield(page, err) {
				return
			}
		}
	}
}

func TestSandboxDeletionsUnderUnprovenLists(t *testing.T) {
	lists := []string{"v2.contacts", "projects.projects", "products.products", "crm.deals"}
	p := newPlatform(t, sandbox.Options{NoLimits: true}, func(s schemas.Stream) bool { return slices.Contains(lists, s.Name) })
	catalogue, err := schemas.Load()
	require.NoError(t, err)
	p.config.Catalogue = catalogue.Streams()
	p.must(StatusComplete)
	last := func(table string, i int) string {
		rows := p.memory.Rows(table)
		return rows[len(rows)-1-i]["id"]
	}
	for i := range 2 {
		p.Do("DELETE", "/v2/contacts/"+last("v2_contacts", i))
		p.Do("DELETE", "/api/project/delete/"+last("projects_projects", i))
		p.Do("DELETE", "/api/product/delete/"+last("products_products", i))
		p.Do("DELETE", "/api/deal/delete/"+last("crm_deals", i))
	}
	p.again()
	p.config.Source = newDim(p.config.Source)
	for _, s := range p.must(StatusPartial).Streams {
		require.Equal(t, Unproven, s.Verdict, s.Stream)
		require.Equal(t, StatusHeld, s.Status)
		require.EqualValues(t, 2, s.Counts.Deleted, "%s: %v", s.Stream, s.Err)
		require.EqualValues(t, 1, s.Missing, s.Stream)
		require.Zero(t, p.falsely(s.Stream, s.Table))
	}
	p.again()
	p.equal(p.must(StatusComplete))

	// if the detail endpoint does not exist at all, "not found" says nothing about single records
	require.NoError(t, p.Sandbox.SetFaults(sandbox.Fault{Match: "products.product", Kind: sandbox.FaultModuleOff}))
	p.Do("DELETE", "/api/product/delete/"+last("products_products", 4))
	p.again()
	p.config.Source = newDim(p.config.Source)
	for _, s := range p.must(StatusPartial).Streams {
		require.Zero(t, s.Counts.Deleted, s.Stream)
	}
}
