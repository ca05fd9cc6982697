package check

import (
	"context"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
)

// Commands reports whether the programs of the commands that run after a pipeline are there, and may be run. It does not
// run them.
func Commands(ctx context.Context, o *open.Opener, p config.Pipeline) (all []Finding) {
	for _, c := range p.After {
		f := Finding{Part: "pipeline " + p.Name + " after", OK: true, Detail: strings.Join(c.Words, " ")}
		if _, err := o.Command(c); err != nil {
			// Cause: a program of `after` is not found
			f = Failed(ctx, f.Part, err, "the program must be in PATH, or have a path that is relative to the folder of the configuration")
		}
		all = append(all, f)
	}
	return all
}
