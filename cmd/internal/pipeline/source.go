package pipeline

import (
	"context"
	"iter"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Negotiator is implemented by sources that can probe how an endpoint answers, such as *extract.Client.
type Negotiator interface {
	// Negotiate probes the endpoint of s before a pass, and returns what it found out. If it cannot find out how to
	// read the list, the error says why, and the Convention has only the number of requests.
	Negotiate(ctx context.Context, s schemas.Stream) (extract.Convention, error)
}

// StreamCompleter is implemented by sources that read further streams besides those of the run, such as
// *extract.Client. For example, the run has only a child stream, and the source also reads the parent stream.
type StreamCompleter interface {
	// Settle sets a function that completes such a further stream with what the destinations store about it. Settle is
	// called before the first pass, and may be called again.
	Settle(settle func(schemas.Stream) schemas.Stream)
}

// PartSource is implemented by sources that can request only some of a stream's parents, such as
// *extract.Client.
type PartSource interface {
	// PagesOf is like Pages, but requests only the parents for which ask() returns true. The function is called at most
	// once per parent. Its second argument is the number of all parents. A source may also request every parent. Each
	// page names the parents that were requested.
	PagesOf(ctx context.Context, s schemas.Stream, from state.Cursor, ask func(p extract.Parent, of int) bool) iter.Seq2[extract.Page, error]
}

// PassListener is implemented by sources that let a child stream wait for a pass over its parent, such as
// *extract.Client.
type PassListener interface {
	// NoMorePasses reports to the source that no further pass over the stream follows.
	NoMorePasses(stream string)
}

// RecordSource is implemented by sources that can request one record, such as *extract.Client.
type RecordSource interface {
	// Record requests one record of s. The map has one entry for each parameter of the stream, its name and a JSON
	// scalar: for example {"id":7}. Record returns nil only if the source reports that the record does not exist. Every
	// other answer without the record is an error.
	Record(ctx context.Context, s schemas.Stream, values map[string][]byte) (record []byte, requests int, err error)
}
