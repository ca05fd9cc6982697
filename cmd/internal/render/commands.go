package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// shownLines is how many lines of the output of a failed command are printed without -v.
const shownLines = 20

// Commands prints the results of the commands that ran after a run, and the end of the output of a command that was not
// successful. With verbose set, it prints all of the output that is kept.
func Commands(w io.Writer, all []pipeline.Command, verbose bool) {
	for _, c := range all {
		why := ""
		if c.Error != "" {
			why = ": " + Printable(c.Error, false)
		}
		fmt.Fprintf(w, "command %s: %s in %s%s\n", Printable(c.String(), false), Tone(w, string(c.Result)), Brief(c.Took()), why)
		if c.Output == "" || c.Result == pipeline.CommandOK && !verbose {
			continue
		}
		lines := slices.Collect(strings.Lines(c.Output))
		if more := len(lines) - shownLines; more > 0 && !verbose {
			fmt.Fprintf(w, "  … %s before these; -v prints more\n", Plural(more, "line"))
			lines = lines[more:]
		}
		for _, line := range lines {
			fmt.Fprintf(w, "  %s\n", Printable(strings.TrimRight(line, "\r\n"), false))
		}
	}
}
