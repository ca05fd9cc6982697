// Package execute executes the units of runs, for the commands `sync`, `backfill`, `serve` and `worker`. A unit is what
// a run reads from one source and one group of streams. All units of a run that have the same source are a job.
//
// An attempt at a job opens its source and destinations, takes the lease of its pipeline and source, and reads its
// streams. The commands differ in where jobs come from, and where their units are recorded.
//
//   - [Executor.Run] makes a list of jobs, one for each source. If the state is a folder, it plans and records their
//     units there. A unit that fails is left to the next run.
//   - A [Worker] gets jobs from the queue of a state database. Their units are planned and recorded in that database.
//     A unit that fails gets further attempts in the same run.
package execute

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state/postgres"
)

// Executor makes attempts at jobs in this process. It is safe for concurrent use.
type Executor struct {
	Open       *open.Opener
	Redactor   *wire.Redactor // applied to texts before they are stored
	Messages   io.Writer      // gets the messages that are not log lines
	ByteBudget int64          // bytes of records that are read but not committed; 0 for the default
}

// budget returns a byte budget that is large enough for each of the pipelines. // Invariant 6
func (x *Executor) budget(c *config.Config, pipelines ...config.Pipeline) *pipeline.Budget {
	var most int64
	for _, p := range pipelines {
		most = max(most, x.Open.MemoryFor(c, p).Budget)
	}
	return pipeline.NewBudget(cmp.Or(x.ByteBudget, most, pipeline.DefaultByteBudget))
}

// workerName returns a name that no other worker has.
func (x *Executor) workerName() string {
	return fmt.Sprintf("%s/%d/%s", x.Open.Host().Name, os.Getpid(), rand.Text()[:8])
}

// final reports whether a retry would fail again with err. It returns true for an error in the configuration
// or the command line, unless the state database causes the error.
func (x *Executor) final(ctx context.Context, c *config.Config, err error) bool {
	_, shared := x.Open.State(c).(*postgres.Store)
	return failure.CodeOf(ctx, err) == failure.ExitUsage && !(shared && postgres.Troubled(err))
}
