package pipeline

import (
	"context"
	"iter"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/parents"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// PartSource is implemented by sources that can request only some of a stream's parents, such as
// *extract.Client.
type PartSource interface {
	// PagesOf is like Pages, but requests only the parents for which ask returns true. It calls ask at most once per
	// parent; the argument of is the number of all parents. A source may also request every parent. Each page names the
	// parents that were requested.
	PagesOf(ctx context.Context, s schemas.Stream, from state.Cursor, ask func(p extract.Parent, of int) bool) iter.Seq2[extract.Page, error]
}

// PassListener is implemented by sources that let a child stream wait for a pass over its parent, such as
// *extract.Client.
type PassListener interface {
	// NoMorePasses reports to the source that no further pass over the stream follows.
	NoMorePasses(stream string)
}

// NoMorePasses reports to the source that s is done. Its child streams can then continue even if s made no pass.
// Invariant 15
func (c *Config) NoMorePasses(s schemas.Stream) {
	if source, ok := c.Source.(PassListener); ok {
		source.NoMorePasses(s.Name)
	}
}

func (st *streamRun) newParentTracker() *parents.Tracker {
	if _, able := st.Source.(PartSource); !able || st.stream.Parent == "" || !st.parts() {
		return nil
	}
	return parents.NewTracker(st.stream)
}

func (p *pass) pages(ctx context.Context) iter.Seq2[extract.Page, error] {
	if source, able := p.Source.(PartSource); able && p.parents.Skips() {
		return source.PagesOf(ctx, p.stream, p.from, p.parents.Needs)
	}
	return p.Source.Pages(ctx, p.stream, p.from)
}

func (k *destinationRun) parentTable(p *pass) parents.Table {
	return parents.Table{Dest: k.dest, Files: k.folder, Pipeline: p.Name, Stream: p.stream}
}

type parentState struct {
	passes     int64
	doubt      string
	allParents bool
	again      map[uint64]bool // ids of parents that the next pass must request even if they are unchanged
}
