// Package pipelinetest runs pipelines from a source of lists into a destination in memory, for the tests of packages
// that use the pipeline.
package pipelinetest

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Rig is a pipeline with one destination, which commits after each page.
type Rig struct {
	*pipeline.Config
	T      *testing.T
	Source *sourcetest.Source
	Memory *loadtest.Memory
}

// New returns a rig that reads these lists.
func New(t *testing.T, lists map[string]*sourcetest.List, streams ...schemas.Stream) *Rig {
	t.Helper()
	r := &Rig{T: t, Source: sourcetest.New(lists)}
	r.Config = &pipeline.Config{Name: "nightly", Source: r.Source, Streams: streams, GroupRows: 1, GroupBytes: 1}
	r.use(loadtest.NewMemory(nil))
	return r
}

func (r *Rig) use(m *loadtest.Memory) {
	r.Memory, r.Destinations = m, []pipeline.Destination{{Name: "warehouse", Destination: m}}
}

// Restart opens the destination again, as a new process would. If the function step is not nil, it is called before
// each step of a commit. If the function returns an error, the step of the commit fails.
func (r *Rig) Restart(step func(string) error) { r.use(r.Memory.Reopen(step)) }

// Mode sets the mode of all tables.
func (r *Rig) Mode(m schemas.Mode) {
	for i := range r.Streams {
		r.Streams[i].Table.Mode = m
	}
}

// Must runs the pipeline. The run must end with this status.
func (r *Rig) Must(status pipeline.Status) pipeline.Report {
	r.T.Helper()
	rep, err := pipeline.Run(context.Background(), *r.Config)
	require.NoError(r.T, err)
	require.Equal(r.T, status, rep.Status, "%+v", rep.Streams)
	return rep
}

// Cursor returns the cursor that the destination stores for the stream.
func (r *Rig) Cursor(stream string) state.Cursor {
	at, err := r.Memory.Cursor(context.Background(), r.Key(stream))
	require.NoError(r.T, err)
	return at
}

// Unresolved returns the rejects that are not resolved.
func (r *Rig) Unresolved() []loadtest.Row {
	return slices.DeleteFunc(r.Memory.Rows(load.Rejects.Name), func(row loadtest.Row) bool { return row["resolved_at"] != "" })
}
