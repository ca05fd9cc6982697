package history

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/checks"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// FailedChecks returns, for each stream, the checks that did not pass in the newest run that has checked the stream.
func FailedChecks(ctx context.Context, d load.Destination) (map[state.Key]string, error) {
	runs, failed := map[state.Key]string{}, map[state.Key][]string{}
	err := Scan(ctx, d, load.Checks, func(r Row) error {
		k, run := KeyOf(r), r.Text("run")
		if run < runs[k] {
			return nil
		}
		if run > runs[k] {
			runs[k], failed[k] = run, nil
		}
		if c := checkOf(r); !c.Good() {
			failed[k] = append(failed[k], c.String())
		}
		return nil
	})
	all := map[state.Key]string{}
	for k, texts := range failed {
		slices.Sort(texts)
		all[k] = strings.Join(slices.Compact(texts), "; ")
	}
	return all, err
}

// checkOf returns the result of a check that a row of [load.Checks] has.
func checkOf(r Row) checks.Result {
	c := checks.Result{
		Name: r.Text("check_name"), Kind: schemas.CheckKind(r.Text("kind")), OnFail: r.Text("on_fail"),
		Outcome: checks.Outcome(r.Text("result")), Failing: r.Number("failing"), Detail: r.Text("detail"), At: r.Time("at"),
	}
	if text := r.Text("examples"); text != "" {
		_ = json.Unmarshal([]byte(text), &c.Examples) // examples that cannot be read are left out
	}
	return c
}
