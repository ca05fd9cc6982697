package history

import (
	"cmp"
	"context"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/load"
)

// Drift returns, by run and root table, the reason of the most severe drift since the previous run.
func Drift(ctx context.Context, d load.Destination) (map[[2]string]string, error) {
	all := map[[2]string]string{}
	err := Scan(ctx, d, load.Changes, func(r Row) error {
		if r.Text("action") != load.ActionDrift {
			return nil
		}
		root, _, _ := strings.Cut(r.Text("table"), "__")
		k := [2]string{RunOf(r.Text("run")), root}
		if text := r.Text("reason"); all[k] == "" || cmp.Less(gravity(all[k]), gravity(text)) {
			all[k] = text
		}
		return nil
	})
	return all, err
}

// gravity returns the rank of a reason by its severity. The text of a reason begins with the severity.
func gravity(reason string) int {
	severity, _, _ := strings.Cut(reason, ":")
	switch drift.Severity(severity) {
	case drift.Blocking:
		return 2
	case drift.Warned:
		return 1
	}
	return 0
}
