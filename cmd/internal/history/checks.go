package history

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/checks"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// FailedChecks returns, for each stream, the checks whose newest result is not good. It leaves out the checks that are
// not configured. A run may make some checks only, so the newest results can be of several runs.
func FailedChecks(ctx context.Context, d load.Destination, configured func(stream, check string) bool) (map[state.Key]string, error) {
	type last struct {
		run string
		checks.Result
	}
	newest := map[state.Key]map[string]last{}
	err := Scan(ctx, d, load.Checks, func(r Row) error {
		k, one := KeyOf(r), last{r.Text("run"), checkOf(r)}
		if !configured(k.Stream, one.Name) {
			return nil
		}
		if newest[k] == nil {
			newest[k] = map[string]last{}
		}
		before, known := newest[k][one.Name]
		if !known || cmp.Or(strings.Compare(one.run, before.run), one.At.Compare(before.At)) > 0 {
			newest[k][one.Name] = one
		}
		return nil
	})
	all := map[state.Key]string{}
	for k, of := range newest {
		var texts []string
		for _, c := range of {
			if !c.Good() {
				texts = append(texts, c.String())
			}
		}
		slices.Sort(texts)
		all[k] = strings.Join(texts, "; ")
	}
	return all, err
}

// checkOf returns the result of a check that a row of [load.Checks] has, without the examples.
func checkOf(r Row) checks.Result {
	return checks.Result{
		Name: r.Text("check_name"), Kind: schemas.CheckKind(r.Text("kind")), OnFail: r.Text("on_fail"),
		Outcome: checks.Outcome(r.Text("result")), Failing: r.Number("failing"), Detail: r.Text("detail"), At: r.Time("at"),
	}
}
