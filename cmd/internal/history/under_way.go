package history

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
)

// RunUnderWay is a run that has begun and not ended. It is in progress, or its process was killed.
type RunUnderWay struct {
	Run, Pipeline string
	Began         time.Time
}

// RunsUnderWay returns the newest run of each pipeline if this run has not ended. If a newer run of the pipeline has
// ended, the earlier run was killed.
func RunsUnderWay(ctx context.Context, d load.Destination) (all []RunUnderWay, err error) {
	newest := map[string]RunUnderWay{}
	running := map[string]bool{} // by run: a run over several sources is under way if one of its rows is
	err = Scan(ctx, d, load.Runs, func(r Row) error {
		u := RunUnderWay{Run: r.Text("run"), Pipeline: r.Text("pipeline")}
		u.Began, _ = r.Value("started_at").(time.Time)
		if r.Text("status") == string(pipeline.StatusRunning) {
			running[u.Run] = true
		}
		if u.Run > newest[u.Pipeline].Run {
			newest[u.Pipeline] = u
		}
		return nil
	})
	for _, u := range newest {
		if running[u.Run] {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b RunUnderWay) int { return strings.Compare(a.Run, b.Run) })
	return all, err
}
