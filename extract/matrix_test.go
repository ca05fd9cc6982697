package extract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/schemas"
)

type combination struct {
	envelope, pager, size string
	n                     int
	method                string
	place                 string // "query" if a POST has its paging parameters in the query, not in the body
}

func (c combination) String() string {
	return fmt.Sprintf("%s %s, %s, %d records, sizes %s%s", c.method, c.envelope, c.pager, c.n, c.size, c.place)
}

func combinations(method, place string, every int) []combination {
	var all []combination
	i := 0
	for _, e := range slices.Sorted(maps.Keys(matrixEnvelopes)) {
		for _, p := range slices.Sorted(maps.Keys(matrixPagers)) {
			if e == "bare" && !slices.Contains(bodiless, p) {
				continue
			}
			for _, n := range []int{0, 1, 9, 10, 11, 20, 63} {
				for _, size := range matrixSizes {
					if p == "cut at a limit" && size == "ignored" && n > matrixPage {
						continue // no parameter returns more records, so the list looks shorter
					}
					if i++; i%every == 0 {
						all = append(all, combination{e, p, size, n, method, place})
					}
				}
			}
		}
	}
	return all
}

type matrix struct {
	*Client
	cells    []combination
	requests atomic.Int64
}

func newMatrix(t *testing.T, cells []combination) *matrix {
	t.Helper()
	m := &matrix{cells: cells}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.requests.Add(1)
		i, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/cell/"))
		if err != nil || i >= len(cells) {
			http.NotFound(w, r)
			return
		}
		c := cells[i]
		w.Header().Set("Content-Type", "application/json")
		matrixList{n: c.n, size: c.size, get: matrixValues(r, c.place)}.serve(w, c.envelope, c.pager)
	}))
	t.Cleanup(srv.Close)
	var routes []wire.Route
	for i, c := range cells {
		routes = append(routes, wire.Route{Method: c.method, Path: fmt.Sprintf("/cell/%d", i)})
	}
	w, err := wire.New(wire.Options{Name: "matrix", BaseURL: srv.URL, Allow: routes, MaxAttempts: 1, Rate: budget.Rate{Limit: 1_000_000, Window: time.Second}})
	require.NoError(t, err)
	t.Cleanup(func() { w.Close() })
	m.Client, err = New(Config{App: w, Parallel: 2, Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func (m *matrix) stream(i int) schemas.Stream {
	return schemas.Stream{
		Name: "shop.things", Surface: schemas.SurfaceApp, Method: m.cells[i].method, Path: fmt.Sprintf("/cell/%d", i),
		Class: schemas.ClassList, Stated: map[string]string{"path": "configured"},
	}
}

type outcome struct {
	verdict string // proven, consistent, stopped, or what went wrong
	missing int
	err     error
	probes  int
	key     bool
}

func judgeReading(c combination, ids map[int]int, end *End) outcome {
	var o outcome
	for i := range c.n {
		if ids[1000+i] == 0 {
			o.missing++
		}
	}
	twice := 0
	for _, n := range ids {
		twice += n - 1
	}
	switch {
	case end == nil:
		o.verdict = "no end"
	case end.FirstTotal >= 0 && end.FirstTotal != end.LastTotal || end.LastTotal >= 0 && end.LastTotal != int64(len(ids)):
		o.verdict = "contradicted"
	case twice > 0:
		o.verdict = "unproven"
	case end.LastTotal >= 0 || end.Reread && !end.Round || end.Rule == RuleSingle:
		o.verdict = "proven"
	default:
		o.verdict = "consistent"
	}
	return o
}

func (m *matrix) try(ctx context.Context, i int) outcome {
	s := m.stream(i)
	conv, err := m.Negotiate(ctx, s)
	if err != nil {
		return outcome{verdict: "stopped", err: err, probes: conv.Requests}
	}
	o := m.readCell(ctx, i, conv.Apply(s))
	o.probes, o.key = conv.Requests, len(conv.Key) > 0
	return o
}

func (m *matrix) readCell(ctx context.Context, i int, s schemas.Stream) outcome {
	ids := map[int]int{}
	var end *End
	for page, err := range m.Pages(ctx, s, "") {
		if err != nil {
			return outcome{verdict: "stopped", err: err}
		}
		var records []struct{ ID int }
		if err := json.Unmarshal(page.Records, &records); err != nil {
			return outcome{verdict: "broken", err: err}
		}
		for _, r := range records {
			ids[r.ID]++
		}
		end = page.End
	}
	return judgeReading(m.cells[i], ids, end)
}

func (m *matrix) each(t *testing.T, f func(ctx context.Context, i int) outcome) []outcome {
	t.Helper()
	all := make([]outcome, len(m.cells))
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(8)
	for i := range m.cells {
		g.Go(func() error { all[i] = f(ctx, i); return nil })
	}
	require.NoError(t, g.Wait())
	return all
}

func (m *matrix) tally(t *testing.T, all []outcome) map[string]int {
	t.Helper()
	counts := map[string]int{}
	probes, wrong := 0, 0
	for i, o := range all {
		counts[o.verdict]++
		probes += o.probes
		fine := o.verdict == "proven" || o.verdict == "consistent"
		if o.missing > 0 && o.verdict != "stopped" {
			fine = false
			counts["silent loss"]++
		}
		if o.verdict == "stopped" {
			counts["stopped: "+m.cells[i].pager]++
			fine = errors.As(o.err, new(*wire.Error)) && len(o.err.Error()) > 20
		}
		if !fine {
			if wrong++; wrong <= 40 {
				t.Errorf("%v: %s, %d missing, %v", m.cells[i], o.verdict, o.missing, o.err)
			}
		}
	}
	t.Logf("%d combinations, %d requests, %.1f of them probes a list", len(all), m.requests.Load(), float64(probes)/float64(len(all)))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%6d %s", counts[name], name)
	}
	require.Zero(t, counts["silent loss"])
	return counts
}

func TestMatrix(t *testing.T) {
	every := 1
	if testing.Short() {
		every = 13
	}
	m := newMatrix(t, combinations(http.MethodGet, "", every))
	counts := m.tally(t, m.each(t, m.try))
	require.Less(t, counts["stopped"], len(m.cells)/20, "too many lists stop")
}

func TestMatrixOfPosts(t *testing.T) {
	every := 7
	if testing.Short() {
		every = 97
	}
	for _, place := range []string{"", "query"} {
		m := newMatrix(t, combinations(http.MethodPost, place, every))
		m.tally(t, m.each(t, m.try))
	}
}

func TestMatrixWithoutNegotiation(t *testing.T) {
	every := 3
	if testing.Short() {
		every = 37
	}
	m := newMatrix(t, combinations(http.MethodGet, "", every))
	all := m.each(t, func(ctx context.Context, i int) outcome {
		s := m.stream(i)
		s.Key = []string{"id"}
		return m.readCell(ctx, i, s)
	})
	m.tally(t, all)
}
