package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
)

// maxNotices is how many notices per stream are printed without -v.
const maxNotices = 3

// printNotices prints how the source has changed since the previous run. Unless verbose is set, it prints only what
// needs attention.
func printNotices(w io.Writer, streams []pipeline.StreamReport, verbose bool) {
	printed := false
	seen := map[string]bool{} // streams already handled: their reports for other destinations have the same notices
	for _, s := range streams {
		if seen[s.Stream] {
			continue
		}
		seen[s.Stream] = len(s.Notices) > 0
		more := 0
		for i, n := range s.Notices {
			switch {
			case n.Severity == drift.Blocking && s.Err != nil: // the stream's error has the same text
			case verbose, n.Severity != drift.Noted && i < maxNotices:
				fmt.Fprintf(w, "%s %s%s: %s\n", Label(w, string(n.Severity)), s.Stream, inColumn(n), Printable(n.Reason, false))
				printed = true
			case n.Severity != drift.Noted:
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
func inColumn(n drift.Notice) string {
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
