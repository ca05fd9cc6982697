package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/checks"
)

// printChecks prints the checks that have failed or could not run. If verbose is set, it also prints those that have
// passed. A check that has kept a commit back is left out, because it is in the error of its stream.
func printChecks(w io.Writer, streams []pipeline.StreamReport, verbose bool) {
	printed := false
	for _, s := range streams {
		name := s.Stream
		if severalDestinations(streams) {
			name += " → " + s.Destination
		}
		for _, c := range s.Checks {
			switch {
			case c.Outcome == checks.Held:
				continue
			case !c.Good():
				fmt.Fprintf(w, "%-11s %s: %s\n", "check", name, Printable(c.String(), false))
			case verbose:
				fmt.Fprintf(w, "%-11s %s: %s passed\n", "check", name, Printable(c.Title(), false))
			default:
				continue
			}
			printed = true
		}
	}
	if printed {
		fmt.Fprintln(w)
	}
}

// checkSums counts the checks by their outcomes. It returns "" if there are none.
func checkSums(streams []pipeline.StreamReport) string {
	n, all := map[checks.Outcome]int{}, 0
	for _, s := range streams {
		for _, c := range s.Checks {
			n[c.Outcome]++
			all++
		}
	}
	if all == 0 {
		return ""
	}
	parts := []string{fmt.Sprintf("%d passed", n[checks.OK])}
	for _, o := range []struct {
		outcome checks.Outcome
		words   string
	}{{checks.Failed, "failed"}, {checks.Held, "held rows back"}, {checks.Errors, "could not run"}} {
		if n[o.outcome] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[o.outcome], o.words))
		}
	}
	return Plural(all, "check") + ": " + strings.Join(parts, ", ")
}
