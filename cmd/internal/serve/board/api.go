package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// endpoint is one endpoint of the API. Both its route and its part of the OpenAPI document are made from it.
type endpoint struct {
	method, path string
	does         string // the summary in the OpenAPI document
	query        []param
	shape        any // a value of the response's type, for the OpenAPI document
	answer       func(*Board, *http.Request) (any, error)
}

type param struct {
	name, kind, description string
	values                  []string // the allowed values; nil: all
}

var (
	paging       = []param{{name: "offset", kind: "integer", description: "Number of items to skip."}, {name: "limit", kind: "integer", description: "Maximum number of items, 1 to 200."}}
	byPipeline   = param{name: "pipeline", kind: "string", description: "Only items of this pipeline."}
	bySource     = param{name: "source", kind: "string", description: "Only sources whose name contains this text."}
	ofSource     = param{name: "source", kind: "string", description: "Only items of this source, if the pipeline reads several sources."}
	byStream     = param{name: "stream", kind: "string", description: "Only items of this stream."}
	byTable      = param{name: "table", kind: "string", description: "Only items of this table."}
	byStatus     = param{name: "status", kind: "string", description: "Only items with this status."}
	exactSource  = param{name: "source", kind: "string", description: "Only runs over this source; not together with stream."}
	exactStream  = param{name: "stream", kind: "string", description: "Only this stream, summed over all sources."}
	partOfStream = param{name: "stream", kind: "string", description: "Only streams whose name contains this text."}
	allRejects   = param{name: "all", kind: "boolean", description: "Include rejects whose records were loaded later."}
)

func inRange() param {
	return param{name: "range", kind: "string", description: "Range of time, up to now; 7d by default. Points are hours for 24h and 7d, and days otherwise.", values: rangeNames()}
}

func with(more ...param) []param { return append(more, paging...) }

type items[T any] struct {
	Items []T    `json:"items"`
	Total int    `json:"total" jsonschema:"description=Number of items in the whole list."`
	Next  string `json:"next,omitempty" jsonschema:"description=Path of the next page; absent on the last."`
}

type noted struct {
	Done string `json:"done"`
}

func endpoints() []endpoint {
	const in = "/api/v1/pipelines/{pipeline}"
	get := http.MethodGet
	return append([]endpoint{
		{get, "/api/v1/status", "Overall state, and runs in progress.", nil, Overview{}, func(b *Board, r *http.Request) (any, error) { return b.status(r.Context()) }},
		{get, "/api/v1/pipelines", "Pipelines with their schedules and slots.", with(), items[Pipeline]{}, func(b *Board, r *http.Request) (any, error) {
			all, err := b.Facts.Pipelines(r.Context())
			return part(r, all), err
		}},
		{get, "/api/v1/streams", "State of every stream in each destination.", with(byPipeline, ofSource, byStream, byStatus), items[Stream]{}, func(b *Board, r *http.Request) (any, error) {
			all, err := b.streams(r)
			return part(r, all), err
		}},
		{get, "/api/v1/sources", "State of every source, problems first.", with(bySource, byStatus), items[Source]{}, (*Board).sourcesPart},
		{get, "/api/v1/runs", "Runs, newest first.", with(byPipeline, ofSource, byStatus), items[Run]{}, func(b *Board, r *http.Request) (any, error) {
			return listed(r, b.Facts.Runs)
		}},
		{get, "/api/v1/runs/{run}", "One run: its passes and their certificates, rejects, changes of tables, and log.", []param{ofSource}, RunDetail{}, func(b *Board, r *http.Request) (any, error) {
			d, err := b.Facts.Run(r.Context(), r.PathValue("run"), queryOf(r).Source)
			return d.whole(), err
		}},
		{get, "/api/v1/history", "What runs did over time: rows, changes, durations, freshness, rejects, requests and the use of the rate limit.", []param{byPipeline, exactSource, exactStream, inRange()}, Trend{}, func(b *Board, r *http.Request) (any, error) {
			return b.history.trend(r)
		}},
		{get, "/api/v1/history/series", "Sums over a range of time for each pipeline, source or stream, sorted by name.", with(byPipeline, bySource, partOfStream, inRange(), param{name: "by", kind: "string", description: "What the items are; by default, streams.", values: []string{byPipelines, bySources, byStreams}}), items[SeriesTotal]{}, func(b *Board, r *http.Request) (any, error) {
			q := queryOf(r)
			l, err := b.history.totals(r.Context(), kindOf(r), q, rangeOf(r))
			return itemsOf(r, q, l), err
		}},
		{get, "/api/v1/graph", "Graph of sources, streams, tables and views, for a page of the streams.", with(byPipeline, ofSource, partOfStream), Graph{}, func(b *Board, r *http.Request) (any, error) {
			return graphOf(b.Facts, r)
		}},
		{get, "/api/v1/rejects", "Records and values that could not be stored in the tables, and why.", with(byPipeline, ofSource, byStream, allRejects), items[Reject]{}, func(b *Board, r *http.Request) (any, error) {
			return listed(r, b.Facts.Rejects)
		}},
		{get, "/api/v1/schema", "Changes of tables, newest first.", with(byTable), items[Change]{}, func(b *Board, r *http.Request) (any, error) {
			return listed(r, b.Facts.Schema)
		}},
		{get, "/api/v1/audit", "Sign-ins, actions and refused attempts at the dashboard and its API, newest first.", with(), items[Audit]{}, func(b *Board, r *http.Request) (any, error) {
			return listed(r, b.Facts.Audit)
		}},
		{get, "/api/v1/webhooks", "Webhook deliveries of each source.", with(), items[Webhook]{}, func(b *Board, r *http.Request) (any, error) {
			all, err := b.webhooks(r.Context())
			return part(r, all), err
		}},
		{get, "/api/v1/rate", "Rate limit of each credential, and how much of the limit was used over time.", with(), items[Budget]{}, func(b *Board, r *http.Request) (any, error) {
			all, err := b.Facts.Rate(r.Context())
			return part(r, all), err
		}},
	}, doing(in)...)
}

func doing(in string) (all []endpoint) {
	for _, a := range actions() {
		all = append(all, endpoint{http.MethodPost, "/api/v1" + a.path, a.does, nil, noted{}, func(b *Board, r *http.Request) (any, error) {
			return noted{a.name}, b.do(a, r)
		}})
	}
	return all
}

func (b *Board) answer(e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := understood(r, e.query); err != nil {
			b.problem(w, r, http.StatusBadRequest, err.Error())
			return
		}
		v, err := e.answer(b, r)
		if err != nil {
			b.fail(w, r, err)
			return
		}
		status := http.StatusOK
		if e.method == http.MethodPost {
			status = http.StatusAccepted
		}
		writeJSON(w, status, "application/json", v)
	})
}

func writeJSON(w http.ResponseWriter, status int, kind string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		kind, status = "application/problem+json", http.StatusInternalServerError
		text = []byte(`{"type":"about:blank","title":"Internal Server Error","status":500}`)
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

// The function understood() returns an error for an unknown or invalid parameter. An unknown parameter may be a
// misspelt filter. If it were ignored, the response would have items that the filter should leave out.
func understood(r *http.Request, known []param) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return errors.New("cannot parse the query")
	}
	left := len(values)
	for _, p := range known {
		if !values.Has(p.name) {
			continue
		}
		left--
		v := values.Get(p.name)
		n, err := strconv.Atoi(v)
		_, not := strconv.ParseBool(v)
		switch {
		case p.kind == "integer" && (err != nil || n < 0 || p.name == "limit" && (n < 1 || n > maxLimit)):
			return fmt.Errorf("%s: %q is not a number in the allowed range", p.name, v)
		case p.values != nil && !slices.Contains(p.values, v):
			return fmt.Errorf("%s: must be one of %s", p.name, strings.Join(p.values, ", "))
		case p.kind == "boolean" && not != nil:
			return fmt.Errorf("%s: must be true or false", p.name)
		}
	}
	if left > 0 {
		return errors.New("unknown query parameter")
	}
	return nil
}

const (
	defaultLimit = 50
	maxLimit     = 200
)

// queryOf returns the filter and the page that the URL selects. It ignores invalid values.
func queryOf(r *http.Request) Query {
	v := r.URL.Query()
	q := Query{Pipeline: v.Get("pipeline"), Source: v.Get("source"), Stream: v.Get("stream"), Table: v.Get("table"), Status: v.Get("status")}
	q.All, _ = strconv.ParseBool(v.Get("all"))
	if n, err := strconv.Atoi(v.Get("offset")); err == nil && n > 0 {
		q.Offset = n
	}
	q.Limit = defaultLimit
	if n, err := strconv.Atoi(v.Get("limit")); err == nil && n > 0 {
		q.Limit = min(n, maxLimit)
	}
	return q
}

func part[T any](r *http.Request, all []T) items[T] {
	q := queryOf(r)
	from := min(q.Offset, len(all))
	return itemsOf(r, q, List[T]{Items: all[from:min(from+q.Limit, len(all))], Total: len(all)})
}

func itemsOf[T any](r *http.Request, q Query, l List[T]) items[T] {
	out := items[T]{Items: l.Items, Total: l.Total, Next: beside(r, q.Offset+len(l.Items), l.Total)}
	if out.Items == nil {
		out.Items = []T{}
	}
	if len(l.Items) == 0 {
		out.Next = ""
	}
	return out
}

// The function beside() returns the path of the page that begins at the given offset in a list. It returns "" if there
// is no such page.
func beside(r *http.Request, offset, total int) string {
	if offset < 0 || offset >= total {
		return ""
	}
	v := r.URL.Query()
	v.Del("said")
	v.Set("offset", strconv.Itoa(offset))
	if offset == 0 {
		v.Del("offset")
	}
	u := url.URL{Path: r.URL.Path, RawQuery: v.Encode()}
	return u.String()
}

func listed[T any](r *http.Request, ask func(context.Context, Query) (List[T], error)) (any, error) {
	q := queryOf(r)
	l, err := ask(r.Context(), q)
	return itemsOf(r, q, l), err
}

type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

func (b *Board) problem(w http.ResponseWriter, r *http.Request, status int, detail string) {
	if isAPI(r) {
		writeJSON(w, status, "application/problem+json", problem{"about:blank", http.StatusText(status), status, detail})
		return
	}
	_, signed := b.signedIn(r)
	b.render(w, status, "problem", page{Title: http.StatusText(status), Fault: detail, Open: signed || b.Access.Open()})
}

func (b *Board) fail(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, ErrUnknown):
		b.problem(w, r, http.StatusNotFound, err.Error())
	case errors.Is(err, errSourceAndStream):
		b.problem(w, r, http.StatusBadRequest, err.Error())
	case errors.Is(err, ErrBusy):
		b.problem(w, r, http.StatusConflict, err.Error())
	case r.Context().Err() != nil:
	default:
		b.Log.Error("dashboard request", "path", r.URL.Path, "error", err)
		b.problem(w, r, http.StatusInternalServerError, err.Error())
	}
}
