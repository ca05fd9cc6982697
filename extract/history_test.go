package extract

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

type edits struct {
	edited map[int]time.Duration
	order  string // id, created, changed
	filter string // "", created, changed, next day
	never  bool   // only edited records have a time of change
	births bool
}

func (e edits) serve(w http.ResponseWriter, r *http.Request) {
	type rec struct {
		id               int
		created, changed time.Time
	}
	base := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	var all []rec
	for id := 1; id <= 40; id++ {
		x := rec{id, base.AddDate(0, 0, id), base.AddDate(0, 0, id)}
		if after, ok := e.edited[id]; ok {
			x.changed = base.AddDate(0, 0, 40).Add(after)
		}
		all = append(all, x)
	}
	if bound, err := time.Parse(time.RFC3339, r.URL.Query().Get("updated_since")); err == nil && e.filter != "" {
		all = slices.DeleteFunc(all, func(x rec) bool {
			switch e.filter {
			case "created":
				return x.created.Before(bound)
			case "next day":
				return !x.changed.Truncate(24 * time.Hour).After(bound)
			}
			return x.changed.Before(bound)
		})
	}
	slices.SortStableFunc(all, func(a, b rec) int {
		switch e.order {
		case "created":
			return b.id - a.id
		case "changed":
			return b.changed.Compare(a.changed)
		}
		return a.id - b.id
	})
	if q := r.URL.Query(); q.Get("sort") == "id" && q.Get("direction") == "asc" {
		slices.SortFunc(all, func(a, b rec) int { return a.id - b.id })
	}
	p, last := number(r, "page", 1), max(1, (len(all)+9)/10)
	out := []map[string]any{}
	for _, x := range all[min((p-1)*10, len(all)):min(p*10, len(all))] {
		m := map[string]any{"id": x.id, "updated_at": x.changed.Format(time.RFC3339)}
		if e.births {
			m["created_at"] = x.created.Format(time.RFC3339)
		}
		if _, edited := e.edited[x.id]; e.never && !edited {
			m["updated_at"] = nil
		}
		out = append(out, m)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": out, "meta": map[string]any{"current_page": p, "last_page": last}})
}

func TestNegotiateByChange(t *testing.T) {
	someEdited := map[int]time.Duration{3: 26 * time.Hour, 5: 49 * time.Hour, 36: 50 * time.Hour}
	for name, tt := range map[string]struct {
		list    edits
		param   string // the expected parameter for the filter
		tail    bool   // expect that the list is read from the latest change
		waiting bool   // expect that a later negotiation may find more
	}{
		"newest first, no record edited":           {list: edits{order: "created", births: true}, waiting: true},
		"newest first, by creation":                {list: edits{order: "created", births: true, edited: someEdited}},
		"latest change first":                      {list: edits{order: "changed", births: true, edited: someEdited}, tail: true},
		"latest change first, no time of creation": {list: edits{order: "changed", edited: someEdited}, tail: true},
		"a filter, no record edited":               {list: edits{filter: "changed", births: true}, waiting: true},
		"a filter by creation":                     {list: edits{filter: "created", births: true, edited: someEdited}, waiting: true},
		"a filter by change":                       {list: edits{filter: "changed", births: true, edited: someEdited}, param: "updated_since"},
		"a filter by change, no time of creation":  {list: edits{filter: "changed", edited: someEdited}, param: "updated_since"},
		"a filter from the next day on":            {list: edits{filter: "next day", births: true, edited: someEdited}, waiting: true},
		"records without a time of change":         {list: edits{filter: "changed", births: true, edited: someEdited, never: true}, waiting: true},
		"order and filter by change, filter used":  {list: edits{order: "changed", filter: "changed", births: true, edited: someEdited}, param: "updated_since"},
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			s.Incremental = schemas.Incremental{Auto: true}
			f := serve(t, tt.list.serve, s)
			c, err := f.Negotiate(t.Context(), s)
			require.NoError(t, err)
			got := c.Apply(s)
			require.Equal(t, tt.param, got.Incremental.Param, "%+v", c.Facts)
			require.Equal(t, tt.param != "" || tt.tail, got.Incremental.Set(), "%+v", c.Facts)
			if tt.tail {
				require.Empty(t, got.Pagination.Order, "no requested order may contradict the default one")
			}
			require.Equal(t, tt.waiting, c.Undecided(), "%+v", c.Facts)
			require.LessOrEqual(t, c.Requests, 25)
		})
	}
}
