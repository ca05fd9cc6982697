package board

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/serve/access"
)

type view struct {
	path, template, title string
	nav                   string
	live                  bool // the page loads its content again when its data changes
	data                  func(*Board, *http.Request) (any, error)
}

func views() []view {
	return []view{
		{"/{$}", "now", "Now", "/", true, (*Board).nowPage},
		{"/pipelines", "pipelines", "Pipelines", "/pipelines", true, func(b *Board, r *http.Request) (any, error) { return b.Facts.Pipelines(r.Context()) }},
		{"/pipelines/{pipeline}", "pipeline", "Pipeline", "/pipelines", true, (*Board).pipelinePage},
		{"/pipelines/{pipeline}/streams/{stream}", "stream", "Stream", "/streams", true, (*Board).streamPage},
		{"/streams", "streams", "Streams", "/streams", true, (*Board).streamsPage},
		{"/sources", "sources", "Sources", "/sources", true, (*Board).sourcesPage},
		{"/runs", "runs", "Runs", "/runs", true, listPage(func(b *Board) asking[Run] { return b.Facts.Runs })},
		{"/runs/{run}", "run", "Run", "/runs", true, (*Board).runPage},
		{"/history", "history", "History", "/history", true, func(b *Board, r *http.Request) (any, error) { return b.history.page(r) }},
		{"/history/series", "totals", "History", "/history", true, func(b *Board, r *http.Request) (any, error) { return b.history.totalsPage(r) }},
		{"/graph", "graph", "Graph", "/graph", true, func(b *Board, r *http.Request) (any, error) { return graphPage(b.Facts, r) }},
		{"/rejects", "rejects", "Rejects", "/rejects", false, rejectsPage},
		{"/schema", "schema", "Schema", "/schema", false, listPage(func(b *Board) asking[Change] { return b.Facts.Schema })},
		{"/data", "data", "Data", "/data", false, func(b *Board, r *http.Request) (any, error) { return b.data.tables(r) }},
		{"/data/{destination}", "data", "Data", "/data", false, func(b *Board, r *http.Request) (any, error) { return b.data.tables(r) }},
		{"/data/{destination}/tables/{table}", "table", "Table", "/data", false, func(b *Board, r *http.Request) (any, error) { return b.data.table(r) }},
		{sqlPath, "sql", "SQL", "/data", false, func(b *Board, r *http.Request) (any, error) { return b.data.sql(r) }},
		{"/audit", "audit", "Audit", "/audit", false, listPage(func(b *Board) asking[Audit] { return b.Facts.Audit })},
		{"/webhooks", "webhooks", "Webhooks", "/webhooks", true, func(b *Board, r *http.Request) (any, error) { return b.webhooks(r.Context()) }},
		{"/rate", "rate", "Rate", "/rate", true, func(b *Board, r *http.Request) (any, error) { return b.Facts.Rate(r.Context()) }},
	}
}

func (b *Board) show(v view) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := v.data(b, r)
		if err != nil {
			b.fail(w, r, err)
			return
		}
		p := page{Title: v.title, Nav: v.nav, Live: v.live, Data: data, Said: said(r), Open: true, Signed: !b.Access.Open(),
			Here: here(r), Mark: b.sessions.mark(w, r), Version: b.Version}
		if visitorOf(r).Role.Includes(access.Operate) {
			p.Actions = p.Mark
		}
		if t, ok := data.(interface{ title() string }); ok {
			p.Title = t.title()
		}
		b.render(w, http.StatusOK, v.template, p)
	})
}

// here returns the URL of the page without the parameter "said", which an action may have added.
func here(r *http.Request) string {
	u, v := *r.URL, r.URL.Query()
	v.Del("said")
	u.RawQuery = v.Encode()
	return local(u.RequestURI())
}

type nowView struct {
	Overview
	Runs []Run
}

func (b *Board) nowPage(r *http.Request) (any, error) {
	s, err := b.status(r.Context())
	if err != nil {
		return nil, err
	}
	last, err := b.Facts.Runs(r.Context(), Query{Limit: 8})
	return nowView{s, last.Items}, err
}

// streamRows is how many streams a page shows, the most severe first. A browser paints 50 rows in 100 ms.
const streamRows = 50

type pipelineView struct {
	Pipeline
	Streams []Stream
	More    int
	Runs    []Run
}

func (v pipelineView) title() string { return v.Name }

func (b *Board) pipelinePage(r *http.Request) (any, error) {
	p, err := b.pipeline(r)
	if err != nil {
		return nil, err
	}
	streams, err := b.Facts.Streams(r.Context(), "")
	if err != nil {
		return nil, err
	}
	kept := wanted(streams.Items, Query{Pipeline: p.Name})
	v := pipelineView{Pipeline: p, Streams: kept[:min(len(kept), streamRows)], More: len(kept) - streamRows}
	last, err := b.Facts.Runs(r.Context(), Query{Pipeline: p.Name, Limit: 10})
	v.Runs = last.Items
	return v, err
}

func (b *Board) pipeline(r *http.Request) (Pipeline, error) {
	all, err := b.Facts.Pipelines(r.Context())
	if err != nil {
		return Pipeline{}, err
	}
	i := slices.IndexFunc(all, func(p Pipeline) bool { return p.Name == r.PathValue("pipeline") })
	if i < 0 {
		return Pipeline{}, ErrUnknown
	}
	return all[i], nil
}

type streamView struct {
	Pipeline, Name string
	Source         string // the source that is shown, if there are several
	In             []Stream
	Each           []Stream // the entries, shown as a table, if there are too many to show each in full
	Total          int
	Table          string
	Rejects        List[Reject]
	Changes        List[Change]
}

func (v streamView) title() string { return v.Name }

const maxCards = 8

func (b *Board) streamPage(r *http.Request) (any, error) {
	v := streamView{Pipeline: r.PathValue("pipeline"), Name: r.PathValue("stream"), Source: queryOf(r).Source}
	all, err := b.Facts.Streams(r.Context(), v.Source)
	if err != nil {
		return nil, err
	}
	kept := wanted(all.Items, Query{Pipeline: v.Pipeline})
	v.In = slices.DeleteFunc(kept, func(s Stream) bool { return s.Name != v.Name })
	if v.Total = len(v.In); v.Total == 0 {
		return nil, ErrUnknown
	}
	v.Table = v.In[0].Table
	if v.Total > maxCards {
		v.In, v.Each = nil, v.In[:min(v.Total, streamRows)]
	}
	if v.Rejects, err = b.Facts.Rejects(r.Context(), Query{Pipeline: v.Pipeline, Source: v.Source, Stream: v.Name, Limit: 10}); err != nil {
		return nil, err
	}
	v.Changes, err = b.Facts.Schema(r.Context(), Query{Table: v.Table, Limit: 10})
	return v, err
}

type listView[T any] struct {
	Items         []T
	From, Total   int
	Before, After string
	Hint          string
	Query         Query
}

type asking[T any] func(context.Context, Query) (List[T], error)

func listPage[T any](of func(*Board) asking[T]) func(*Board, *http.Request) (any, error) {
	return func(b *Board, r *http.Request) (any, error) {
		q := queryOf(r)
		l, err := of(b)(r.Context(), q)
		return viewOf(r, q, l), err
	}
}

func viewOf[T any](r *http.Request, q Query, l List[T]) listView[T] {
	v := listView[T]{Items: l.Items, From: q.Offset, Total: l.Total, Hint: l.Hint, Query: q, After: beside(r, q.Offset+q.Limit, l.Total)}
	if q.Offset > 0 {
		v.Before = beside(r, max(0, q.Offset-q.Limit), max(1, l.Total))
	}
	return v
}

type rejectsView struct {
	listView[Reject]
	Groups      []Group // only on the first page of the list
	GroupsTotal int
}

const shownGroups = 50

// rejectsPage returns a page of the rejects. The first page counts all rejects of the list by their reasons.
func rejectsPage(b *Board, r *http.Request) (any, error) {
	q := queryOf(r)
	whole := q
	whole.Offset, whole.Limit = 0, 0
	l, err := b.Facts.Rejects(r.Context(), whole)
	if err != nil {
		return nil, err
	}
	from := min(q.Offset, len(l.Items))
	v := rejectsView{listView: viewOf(r, q, List[Reject]{l.Items[from:min(from+q.Limit, len(l.Items))], l.Total, l.Hint})}
	if from == 0 {
		groups := GroupRejects(l.Items)
		v.Groups, v.GroupsTotal = groups[:min(len(groups), shownGroups)], len(groups)
	}
	return v, nil
}

type streamsView struct {
	listView[Stream]
	Tally StateCounts
	Names []string
}

func (b *Board) streamsPage(r *http.Request) (any, error) {
	q := queryOf(r)
	all, err := b.Facts.Streams(r.Context(), q.Source)
	if err != nil {
		return nil, err
	}
	v := streamsView{Tally: tallyOf(all.Items)}
	for _, s := range all.Items {
		v.Names = append(v.Names, s.Pipeline)
	}
	slices.Sort(v.Names)
	v.Names = slices.Compact(v.Names)
	if !r.URL.Query().Has("limit") {
		q.Limit = streamRows
	}
	kept := wanted(all.Items, q)
	from := min(q.Offset, len(kept))
	v.listView = viewOf(r, q, List[Stream]{kept[from:min(from+q.Limit, len(kept))], len(kept), all.Hint})
	return v, nil
}

func (b *Board) streams(r *http.Request) ([]Stream, error) {
	all, err := b.Facts.Streams(r.Context(), queryOf(r).Source)
	return wanted(all.Items, queryOf(r)), err
}

// The function wanted() returns the streams that match q, the most severe first. The status in q may also be a tone.
func wanted(all []Stream, q Query) []Stream {
	var kept []Stream
	for _, s := range all {
		if (q.Pipeline == "" || q.Pipeline == s.Pipeline) && strings.Contains(s.Name, q.Stream) &&
			(q.Status == "" || q.Status == string(s.Status) || q.Status == string(s.Tone())) {
			s.Recent = list(s.Recent)
			kept = append(kept, s)
		}
	}
	slices.SortStableFunc(kept, func(a, b Stream) int {
		return cmp.Or(Graver(b.Tone(), a.Tone()), strings.Compare(a.Name, b.Name), strings.Compare(a.Pipeline, b.Pipeline), strings.Compare(a.Source, b.Source))
	})
	return kept
}

func (b *Board) webhooks(ctx context.Context) ([]Webhook, error) {
	all, err := b.Facts.Webhooks(ctx)
	for i := range all {
		w := &all[i]
		w.Refused, w.PerMin, w.Coverage, w.Dead, w.Recent = list(w.Refused), list(w.PerMin), list(w.Coverage), list(w.Dead), list(w.Recent)
	}
	return all, err
}
