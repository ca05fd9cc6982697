package check

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/load"
)

// checkColumns returns a finding for each check of the data that names a column which the table in the destination does
// not have. Before the first load, the columns are not known.
func checkColumns(ctx context.Context, c *config.Config, d config.Destination, dest load.Destination) (all []Finding) {
	reported := map[config.Pos]bool{}
	for _, p := range c.Pipelines {
		if !slices.ContainsFunc(p.To, func(to config.Ref) bool { return to.Text == d.Name }) {
			continue
		}
		streams, err := c.Select(p, nil)
		if err != nil {
			continue // the check of the pipeline reports it
		}
		for _, s := range streams {
			if len(s.Checks) == 0 {
				continue
			}
			tables, err := dest.Tables(ctx, s.Table.Name)
			if err != nil {
				return append(all, Failed(ctx, "stream "+s.Name, err, ""))
			}
			for _, t := range tables {
				if t.Name != s.Table.Name {
					continue
				}
				for _, check := range s.Checks {
					if bad := unknownColumn(check, load.Names(t.Columns)); bad != "" && !reported[check.At] {
						reported[check.At] = true
						err := c.Fault(check.At, fmt.Sprintf("check %s: the table %s in %s has no column %s", check.Name, t.Name, d.Name, bad))
						all = append(all, Failed(ctx, "stream "+s.Name, err, ""))
					}
				}
			}
		}
	}
	return all
}

// unknownColumn returns the first column of a check that is not among the columns of the table, with a suggestion.
func unknownColumn(c config.Check, columns []string) string {
	for _, name := range c.Columns {
		if !slices.Contains(columns, name) {
			return fmt.Sprintf("%q%s", name, config.DidYouMean(name, columns))
		}
	}
	return ""
}
