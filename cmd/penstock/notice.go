package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
)

// maxNotices is how many notices per stream are printed without -v.
const maxNotices = 3

// printNotices prints how the source has changed since the previous run. Without -v it prints only what needs
// attention.
func (a *app) printNotices(w io.Writer, streams []pipeline.StreamReport) {
	printed := false
	seen := map[string]bool{} // streams, because several destinations have the same notices
	for _, s := range streams {
		if seen[s.Stream] {
			continue
		}
		seen[s.Stream] = len(s.Notices) > 0
		more := 0
		for i, n := range s.Notices {
			switch {
			case n.Severity == pipeline.Blocking && s.Err != nil: // the stream's error has the same text
			case a.verbose, n.Severity != pipeline.Noted && i < maxNotices:
				fmt.Fprintf(w, "%-11s %s%s: %s\n", n.Severity, s.Stream, inColumn(n), printable(n.Reason, false))
				printed = true
			case n.Severity != pipeline.Noted:
				more++
			}
		}
		if more > 0 {
			fmt.Fprintf(w, "            and %d more of %s; -v shows them\n", more, s.Stream)
		}
	}
	if printed {
		fmt.Fprintln(w)
	}
}

// inColumn names the column of n, and its table unless it is the stream's main table.
func inColumn(n pipeline.Notice) string {
	switch _, child, _ := strings.Cut(n.Table, "__"); {
	case n.Column == "" && child == "":
		return ""
	case n.Column == "":
		return ", table " + n.Table
	case child != "":
		return ", column " + n.Table + "." + n.Column
	}
	return ", column " + n.Column
}

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
