package runlist

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Answer returns the runs as rows, at most the given number. If a run has several sources, one more column shows how
// many sources it has, and how many of them are complete.
func (l List) Answer(most int) render.Answer {
	out := render.Answer{Columns: render.Fields(load.Runs, columns...)}
	several := slices.ContainsFunc(l.Runs, func(r Run) bool { return len(r.sources()) > 1 })
	if several {
		out.Columns = slices.Insert(out.Columns, 3, schemas.Field("sources", schemas.Text, ""))
	}
	for _, r := range l.Runs[:min(len(l.Runs), most)] {
		row := []any{r.ID, r.Pipeline, string(r.Status), at(r.Started), at(r.Ended), r.counts(), text(r.Error)}
		if several {
			row = slices.Insert(row, 3, any(r.complete()))
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// Print prints the runs as a table for people, at most the given number. For a run that is under way, the column `took`
// has the time since its start. The error comes before the counts, so that a terminal of 80 columns shows it.
func (l List) Print(w io.Writer, most int, now time.Time) {
	several := slices.ContainsFunc(l.Runs, func(r Run) bool { return len(r.sources()) > 1 })
	columns := []string{"run", "pipeline", "status", "started", "error", "#took", "#streams", "#written", "#rejected", "#requests"}
	if several {
		columns = slices.Insert(columns, 5, "sources")
	}
	g := render.NewTable(columns...).Toned("status")
	for _, r := range l.Runs[:min(len(l.Runs), most)] {
		sum := r.sum()
		row := []any{r.ID, r.Pipeline, string(r.Status), r.Started, r.Error, r.took(now), sum.complete(), sum.Written, sum.Rejected, sum.Requests}
		if several {
			row = slices.Insert(row, 5, any(r.complete()))
		}
		g.Add(row...)
	}
	g.Render(w)
	if more := len(l.Runs) - most; more > 0 {
		fmt.Fprintf(w, "and %s before these\n", render.Plural(more, "run"))
	}
}

// took returns how long the run took, or how long it has been under way. It returns nil if this is not known.
func (r Run) took(now time.Time) any {
	end := r.Ended
	if end.IsZero() && r.Status == pipeline.StatusRunning {
		end = now
	}
	if r.Started.IsZero() || end.Before(r.Started) {
		return nil
	}
	return end.Sub(r.Started)
}

// complete says how many of the streams are complete: 12, or 10 of 12.
func (c Counts) complete() string {
	all := 0
	for _, n := range c.Streams {
		all += n
	}
	if done := c.Streams[pipeline.StatusComplete]; done < all {
		return fmt.Sprintf("%d of %d", done, all)
	}
	return render.Grouped(int64(all))
}

// sources returns the sources of the run, and whether each is complete in all destinations.
func (r Run) sources() map[string]bool {
	all := map[string]bool{}
	for _, p := range r.Parts {
		before, seen := all[p.Source]
		all[p.Source] = p.Status == pipeline.StatusComplete && (!seen || before)
	}
	return all
}

func (r Run) complete() string {
	all, n := r.sources(), 0
	for _, complete := range all {
		if complete {
			n++
		}
	}
	return fmt.Sprintf("%d of %d complete", n, len(all))
}

// counts returns the sums over the parts, as JSON. A request for several destinations counts once.
func (r Run) counts() any {
	switch len(r.Parts) {
	case 0:
		return nil
	case 1:
		return text(r.Parts[0].Text)
	}
	all, _ := json.Marshal(r.sum()) // numbers and words always marshal
	return string(all)
}

// sum returns the sums over the parts. A request for several destinations counts once.
func (r Run) sum() Counts {
	sum := Counts{Streams: map[pipeline.Status]int{}}
	requests := map[string]int{}
	for _, p := range r.Parts {
		c := p.Counts
		sum.Counts = sum.Counts.Add(c.Counts)
		sum.Pages, sum.Bytes = sum.Pages+c.Pages, sum.Bytes+c.Bytes
		requests[p.Source] = max(requests[p.Source], c.Requests)
		for status, n := range c.Streams {
			sum.Streams[status] += n
		}
	}
	for _, n := range requests {
		sum.Requests += n
	}
	return sum
}

// PrintParts prints the sources of a run if there are several, the attempts at the run if any are recorded, and the
// commands that ran after it. In a form for programs, such as JSON, each of them is an additional line.
func (r Run) PrintParts(w io.Writer, form render.Form, titles bool) error {
	sources := render.Answer{Columns: append(fields("destination", "source"), render.Fields(load.Runs, columns[2:]...)...)}
	attempts := render.Answer{Columns: append(append(fields("destination", "source"), render.Fields(load.Runs, "status", "started_at", "ended_at")...),
		schemas.Field("requests", schemas.Int64, ""), schemas.Field("written", schemas.Int64, ""), schemas.Field("error", schemas.Text, ""))}
	for _, p := range r.Parts {
		sources.Rows = append(sources.Rows, []any{p.Destination, text(p.Source), string(p.Status), at(p.Started), at(p.Ended), text(p.Text), text(p.Error)})
		for _, a := range p.Counts.Attempts {
			attempts.Rows = append(attempts.Rows, []any{p.Destination, text(p.Source), string(a.Status), at(a.Started), at(a.Ended), int64(a.Requests), a.Written, text(a.Error)})
		}
	}
	if len(sources.Rows) > 1 {
		if err := printTitled(w, form, titles, "sources", sources); err != nil {
			return err
		}
	}
	if len(attempts.Rows) > 0 {
		if err := printTitled(w, form, titles, "attempts", attempts); err != nil {
			return err
		}
	}
	return r.printCommands(w, form, titles)
}

// printCommands prints the commands that ran after the run. A table for people does not have their output.
func (r Run) printCommands(w io.Writer, form render.Form, titles bool) error {
	if len(r.Commands) == 0 {
		return nil
	}
	commands := render.Answer{Columns: append(fields("command", "result"), append(render.Fields(load.Runs, "started_at", "ended_at"),
		schemas.Field("exit_code", schemas.Int64, ""), schemas.Field("error", schemas.Text, ""))...)}
	if !titles {
		commands.Columns = append(commands.Columns, schemas.Field("output", schemas.Text, ""))
	}
	for _, c := range r.Commands {
		row := []any{c.String(), string(c.Result), at(c.Started), at(c.Ended), int64(c.ExitCode), text(c.Error)}
		if !titles {
			row = append(row, text(c.Output))
		}
		commands.Rows = append(commands.Rows, row)
	}
	return printTitled(w, form, titles, "commands", commands)
}

func printTitled(w io.Writer, form render.Form, titles bool, title string, a render.Answer) error {
	if titles {
		if _, err := io.WriteString(w, "\n"+title+"\n"); err != nil {
			return err
		}
	}
	return a.Print(w, form)
}

func fields(names ...string) (all []arrow.Field) {
	for _, name := range names {
		all = append(all, schemas.Field(name, schemas.Text, ""))
	}
	return all
}

// at() returns a time as a cell, nil for the zero time.
func at(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// text returns a text as a cell, nil for "".
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}
