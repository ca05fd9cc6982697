package board

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Graph is the graph of a page of the streams: sources, streams, tables, and the views that read the tables.
type Graph struct {
	Nodes   []GraphNode `json:"nodes"`
	Edges   []GraphEdge `json:"edges"`
	Streams int         `json:"streams_total" jsonschema:"description=Number of streams in the whole graph."`
	Next    string      `json:"next,omitempty" jsonschema:"description=Path of the next page; absent on the last."`
}

// GraphNode is a source, a stream, a table or a view. Its state is the gravest state of the streams at the node.
type GraphNode struct {
	ID          string    `json:"id"`
	Kind        string    `json:"kind" jsonschema:"enum=source,enum=stream,enum=table,enum=view"`
	Name        string    `json:"name"`
	Pipeline    string    `json:"pipeline,omitempty"`
	Destination string    `json:"destination,omitempty"`
	Sources     int       `json:"sources,omitempty" jsonschema:"description=How many sources the node stands for\\, if there are too many to show each."`
	State       Tone      `json:"state" jsonschema:"enum=ok,enum=busy,enum=attention,enum=failing,enum=new"`
	Synced      time.Time `json:"synced_at,omitzero" jsonschema:"description=When the oldest data at the node was last read completely. Absent: some of it was never read completely."`
}

// GraphEdge says that data goes from one node to another.
type GraphEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

const (
	graphStreams = 20 // streams on a page
	graphSources = 8  // sources of a pipeline that are shown one by one
)

// graphBuilder collects nodes and edges. Each occurs once.
type graphBuilder struct {
	Graph
	index map[string]int
	edges map[GraphEdge]bool
}

// node adds data of a stream to a node, and adds the node if it is new.
func (g *graphBuilder) node(n GraphNode, s Stream) string {
	n.ID = n.Kind + ":" + cmp.Or(n.Destination, n.Pipeline) + "/" + n.Name
	i, known := g.index[n.ID]
	if !known {
		i = len(g.Nodes)
		g.index[n.ID] = i
		n.State, n.Synced = s.Tone(), s.Synced
		g.Nodes = append(g.Nodes, n)
		return n.ID
	}
	at := &g.Nodes[i]
	if Graver(s.Tone(), at.State) > 0 {
		at.State = s.Tone()
	}
	if s.Synced.Before(at.Synced) {
		at.Synced = s.Synced
	}
	return n.ID
}

func (g *graphBuilder) edge(from, to string) {
	if e := (GraphEdge{from, to}); !g.edges[e] {
		g.edges[e] = true
		g.Edges = append(g.Edges, e)
	}
}

type pipelineStream struct{ pipeline, stream string }

// graphOf returns the part of the graph that a URL selects.
func graphOf(f Facts, r *http.Request) (g Graph, err error) {
	q := queryOf(r)
	if !r.URL.Query().Has("limit") {
		q.Limit = graphStreams
	}
	ctx := r.Context()
	all, err := f.Streams(ctx, q.Source)
	if err != nil {
		return g, err
	}
	of := map[pipelineStream][]Stream{}
	var names []pipelineStream
	for _, s := range all.Items {
		if q.Pipeline != "" && q.Pipeline != s.Pipeline || !strings.Contains(s.Name, q.Stream) {
			continue
		}
		n := pipelineStream{s.Pipeline, s.Name}
		if of[n] == nil {
			names = append(names, n)
		}
		of[n] = append(of[n], s)
	}
	slices.SortFunc(names, func(a, b pipelineStream) int {
		return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.pipeline, b.pipeline))
	})
	from := min(q.Offset, len(names))
	x := graphBuilder{Graph: Graph{Nodes: []GraphNode{}, Edges: []GraphEdge{}, Streams: len(names)}, index: map[string]int{}, edges: map[GraphEdge]bool{}}
	sources, err := sourcesIn(ctx, f, q.Source)
	if err != nil {
		return g, err
	}
	for _, n := range names[from:min(from+q.Limit, len(names))] {
		for _, s := range of[n] {
			x.addStream(s, sources[s.Pipeline])
		}
	}
	x.Next = beside(r, from+q.Limit, len(names))
	views, err := f.Views(ctx)
	x.addViews(views, of)
	return x.Graph, err
}

// sourcesIn returns the sources of each pipeline, or only the given source.
func sourcesIn(ctx context.Context, f Facts, source string) (map[string][]string, error) {
	all, err := f.Pipelines(ctx)
	in := map[string][]string{}
	for _, p := range all {
		in[p.Name] = p.From
		if source != "" {
			in[p.Name] = []string{source}
		}
	}
	return in, err
}

func (g *graphBuilder) addStream(s Stream, sources []string) {
	stream := g.node(GraphNode{Kind: "stream", Name: s.Name, Pipeline: s.Pipeline}, s)
	switch {
	case len(sources) > graphSources:
		n := GraphNode{Kind: "source", Name: counted(int64(len(sources)), "source"), Pipeline: s.Pipeline, Sources: len(sources)}
		g.edge(g.node(n, s), stream)
	case s.Source != "":
		g.edge(g.node(GraphNode{Kind: "source", Name: s.Source}, s), stream)
	default:
		for _, name := range sources {
			g.edge(g.node(GraphNode{Kind: "source", Name: name}, s), stream)
		}
	}
	g.edge(stream, g.node(GraphNode{Kind: "table", Name: s.Table, Destination: s.Destination}, s))
}

// addViews adds the views that read a table of the graph. The freshness of a view depends on all tables that it reads,
// even if these are not on the page.
func (g *graphBuilder) addViews(views []View, of map[pipelineStream][]Stream) {
	filled := map[[2]string][]Stream{}
	for _, streams := range of {
		for _, s := range streams {
			t := [2]string{s.Destination, s.Table}
			filled[t] = append(filled[t], s)
		}
	}
	for _, v := range views {
		for _, table := range v.Tables {
			t := "table:" + v.Destination + "/" + table
			if _, shown := g.index[t]; !shown {
				continue
			}
			for _, read := range v.Tables {
				for _, s := range filled[[2]string{v.Destination, read}] {
					g.edge(t, g.node(GraphNode{Kind: "view", Name: v.Name, Destination: v.Destination}, s))
				}
			}
		}
	}
}

// graphBox is a node at its place in the picture.
type graphBox struct {
	GraphNode
	X, Y  int
	Short string // the name, cut to the width of the box
}

// URL returns the page about the node.
func (n GraphNode) URL() string {
	switch {
	case n.Kind == "stream":
		return streamPath(n.Pipeline, n.Name)
	case n.Kind == "source" && n.Sources > 0:
		return queryPath("/history/series", "by", bySources, "pipeline", n.Pipeline)
	case n.Kind == "source":
		return queryPath("/history", "source", n.Name)
	}
	return queryPath("/schema", "table", n.Name)
}

const (
	boxWidth  = 210
	boxHeight = 38
	boxPitch  = 48
	boxColumn = 262
	boxName   = 24 // characters
)

// graphKinds are the columns of the picture.
func graphKinds() []string { return []string{"source", "stream", "table", "view"} }

type graphView struct {
	Graph
	Query         Query
	Boxes         []graphBox
	Lines         []shape
	Width, Height int
	From, Shown   int
	Total         int
	Before, After string
	Rows          []graphRow
	Pipelines     []string
}

// graphRow is a stream of the graph as a row of a table.
type graphRow struct {
	Stream                 GraphNode
	Sources, Tables, Views []GraphNode
}

func graphPage(f Facts, r *http.Request) (any, error) {
	g, err := graphOf(f, r)
	if err != nil {
		return nil, err
	}
	q := queryOf(r)
	v := graphView{Graph: g, Query: q, From: q.Offset, Total: g.Streams, After: g.Next}
	if q.Offset > 0 {
		v.Before = beside(r, max(0, q.Offset-graphStreams), max(1, g.Streams))
	}
	v.place()
	v.rows()
	v.Shown = len(v.Rows)
	pipelines, err := f.Pipelines(r.Context())
	for _, p := range pipelines {
		v.Pipelines = append(v.Pipelines, p.Name)
	}
	return v, err
}
