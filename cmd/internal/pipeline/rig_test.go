package pipeline

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type rig struct {
	t      *testing.T
	source *sourcetest.Source
	memory *loadtest.Memory
	config Config
}

func newRig(t *testing.T, lists map[string]*sourcetest.List, streams ...schemas.Stream) *rig {
	t.Helper()
	r := &rig{t: t, source: sourcetest.New(lists), memory: loadtest.NewMemory(nil)}
	r.config = Config{Name: "nightly", Source: r.source, Streams: streams, limits: perPage}
	return r
}

var perPage = limits{batchRows: 1, batchBytes: 1, groupRows: 1, groupBytes: 1, groupAge: time.Hour}

func (r *rig) run(ctx context.Context) (Report, error) {
	c := r.config
	if c.Destinations == nil {
		c.Destinations = []Destination{{Name: "warehouse", Destination: r.memory}}
	}
	return Run(ctx, c)
}

func (r *rig) must(status Status) Report {
	r.t.Helper()
	rep, err := r.run(context.Background())
	require.NoError(r.t, err)
	require.Equal(r.t, status, rep.Status, "status of the run: %v", summary(rep))
	for _, s := range rep.Streams {
		c := s.Counts
		require.Equal(r.t, c.Fetched, c.Written+c.Unchanged+c.Deduplicated+c.Rejected, "counts of %s: %+v", s.Stream, c)
	}
	return rep
}

func (r *rig) restart(step func(string) error) { r.memory = r.memory.Reopen(step) }

func (r *rig) alive(table string) []sourcetest.Record {
	r.t.Helper()
	var out []sourcetest.Record
	for _, row := range r.memory.Rows(table) {
		if _, dead := row[schemas.ColDeletedAt]; dead {
			continue
		}
		id, err := strconv.Atoi(row["id"])
		require.NoError(r.t, err)
		out = append(out, sourcetest.Record{ID: id, Name: row["name"]})
	}
	slices.SortFunc(out, func(a, b sourcetest.Record) int { return a.ID - b.ID })
	return out
}

func (r *rig) certificates(stream string) []loadtest.Row {
	var out []loadtest.Row
	for _, row := range r.memory.Rows(load.Certificates.Name) {
		if row["stream"] == stream {
			out = append(out, row)
		}
	}
	return out
}

func verdictsOf(rows []loadtest.Row) []Verdict {
	var out []Verdict
	for _, r := range rows {
		out = append(out, Verdict(r["verdict"]))
	}
	return out
}

func (r *rig) unresolved() []loadtest.Row {
	return slices.DeleteFunc(r.memory.Rows(load.Rejects.Name), func(row loadtest.Row) bool { return row["resolved_at"] != "" })
}
