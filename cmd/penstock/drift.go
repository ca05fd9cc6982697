package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
)

// drift returns, by run and root table, the reason of the most severe drift since the previous run.
func drift(ctx context.Context, d load.Destination) (map[[2]string]string, error) {
	all := map[[2]string]string{}
	err := scan(ctx, d, load.Changes, func(r row) error {
		if r.text("action") != load.ActionDrift {
			return nil
		}
		root, _, _ := strings.Cut(r.text("table"), "__")
		k := [2]string{runOf(r.text("run")), root}
		if text := r.text("reason"); all[k] == "" || cmp.Less(gravity(all[k]), gravity(text)) {
			all[k] = text
		}
		return nil
	})
	return all, err
}

// gravity returns the rank of a reason by its severity. The text of a reason begins with the severity.
func gravity(reason string) int {
	severity, _, _ := strings.Cut(reason, ":")
	switch pipeline.Severity(severity) {
	case pipeline.Blocking:
		return 2
	case pipeline.Warned:
		return 1
	}
	return 0
}
