package render

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state/plainerror"
)

type reportJSON struct {
	pipeline.Report
	Seconds  float64      `json:"seconds"`
	ExitCode int          `json:"exit_code"`
	Error    string       `json:"error,omitempty"`
	Hint     string       `json:"hint,omitempty"` // for Error
	Streams  []streamJSON `json:"streams"`
}

type streamJSON struct {
	pipeline.StreamReport
	Duration float64 `json:"duration"` // in seconds
	Error    string  `json:"error,omitempty"`
	Hint     string  `json:"hint,omitempty"`
}

// ReportJSON returns a run's report in the form that `sync --json` prints.
// Its hints name the configuration file.
func ReportJSON(r pipeline.Report, file string) reportJSON {
	j := reportJSON{Report: r, Seconds: r.Ended.Sub(r.Started).Seconds(), ExitCode: r.ExitCode(), Streams: []streamJSON{}}
	if r.Err != nil {
		j.Error, j.Hint = plainerror.Text(r.Err.Error()), Suggest(strings.Join(hintsOf(r.Err), "\n"), file)
	}
	for _, s := range r.Streams {
		sj := streamJSON{StreamReport: s, Duration: s.Duration.Seconds()}
		if !misplaced(r, s) {
			sj.Hint = Suggest(remedy(s), file)
		}
		if s.Err != nil {
			sj.Error = plainerror.Text(s.Err.Error())
		}
		j.Streams = append(j.Streams, sj)
	}
	return j
}

// SummaryOptions says how a run is summarized.
type SummaryOptions struct {
	Verbose bool
	Config  string // configuration file, which suggested commands name if it is not the default
}

// Summary prints what a run did: problems first, then the totals, then next steps.
func Summary(w io.Writer, r pipeline.Report, o SummaryOptions) {
	if r.Paused != "" {
		fmt.Fprintf(w, "%s source %s; nothing was read\n", Label(w, "paused"), r.Paused)
		_ = Hint(w, "            ", fmt.Sprintf("`penstock sources resume %s` includes it in runs again", r.Paused), o.Config)
		return
	}
	if r.Err != nil && r.Status != pipeline.StatusStopped {
		printRunError(w, r, o)
	}
	own := slices.DeleteFunc(slices.Clone(r.Streams), func(s pipeline.StreamReport) bool { return misplaced(r, s) })
	if p := problems(own); len(p) > 0 {
		printProblems(w, p, o)
	}
	printNotices(w, r.Streams, o.Verbose)
	printChecks(w, r.Streams, o.Verbose)
	if o.Verbose {
		printStreamReports(w, r.Streams)
	} else {
		printSums(w, r.Streams)
	}
	printDone(w, r.Streams)
	fmt.Fprintf(w, "\nrun %s of %s: %s in %s, %s requests, %s\n", r.Run, r.Title(), Tone(w, string(r.Status)),
		Brief(r.Ended.Sub(r.Started)), Grouped(int64(r.Requests)), verdicts(r.Streams))
	if text := checkSums(r.Streams); text != "" {
		fmt.Fprintln(w, text)
	}
	if text := outlook(r); text != "" {
		fmt.Fprintln(w, text)
	}
	Commands(w, r.Commands, o.Verbose)
	for _, n := range nextSteps(r, o.Config) {
		fmt.Fprintf(w, "next: %s\n", n)
	}
}

// printRunError prints the error of the run itself, not the errors of its streams.
func printRunError(w io.Writer, r pipeline.Report, o SummaryOptions) {
	fmt.Fprintf(w, "%s run %s\n", Label(w, string(r.Status)), r.Run)
	for line := range strings.SplitSeq(Suggest(plainerror.Text(r.Err.Error()), o.Config), "\n") {
		fmt.Fprintf(w, "            %s\n", Printable(line, false))
	}
	for _, h := range hintsOf(r.Err) {
		_ = Hint(w, "            ", h, o.Config)
	}
}

// hintsOf returns the hints for the parts of a run's error.
func hintsOf(err error) (hints []string) {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range many.Unwrap() {
			hints = append(hints, hintsOf(one)...)
		}
		return hints
	}
	h := Remedy(err, "")
	if f, ok := errors.AsType[*failure.Error](err); ok && f.Hint != "" {
		h = f.Hint
	}
	if h == "" {
		return nil
	}
	return []string{h}
}

// Problem is one reason why streams did not complete, in words for users.
type Problem struct {
	Status      pipeline.Status
	Streams     []string
	Destination string // "" if the reason concerns all destinations
	Reason      string
	Hint        string // what to do; "" if there is nothing to do
}

// Problems returns the reasons why streams did not complete, the worst first. Its hints name the configuration file.
func Problems(r pipeline.Report, file string) (all []Problem) {
	for _, p := range problems(r.Streams) {
		one := Problem{Status: p.Status, Streams: p.streams, Destination: p.Destination, Reason: p.Reasons, Hint: Suggest(remedy(p.StreamReport), file)}
		switch {
		case p.Err != nil:
			one.Reason = plainerror.Text(p.Err.Error())
		case p.Counts.Rejected > 0:
			one.Reason = Plural(int(p.Counts.Rejected), "record") + " rejected"
		}
		all = append(all, one)
	}
	return all
}

// problem is one reason why one or more streams did not complete.
type problem struct {
	streams []string
	pipeline.StreamReport
}

// problems returns the reasons why streams did not complete, the worst first.
func problems(streams []pipeline.StreamReport) []problem {
	var all []problem
	at := map[string]int{}
	for _, s := range streams {
		if s.Status == pipeline.StatusComplete && s.Counts.Rejected == 0 {
			continue
		}
		cause := s.Stream
		if s.Err != nil {
			cause = root(s)
		}
		cause = fmt.Sprint(s.Status, s.Destination, cause)
		if i, ok := at[cause]; ok {
			all[i].streams = append(all[i].streams, s.Stream)
			continue
		}
		at[cause] = len(all)
		all = append(all, problem{streams: []string{s.Stream}, StreamReport: s})
	}
	order := []pipeline.Status{pipeline.StatusFailed, pipeline.StatusHeld, pipeline.StatusLagging, pipeline.StatusPartial, pipeline.StatusParked, pipeline.StatusUnavailable, pipeline.StatusStopped, pipeline.StatusComplete}
	slices.SortStableFunc(all, func(a, b problem) int {
		return cmp.Compare(slices.Index(order, a.Status), slices.Index(order, b.Status))
	})
	return all
}

// root returns a text that is equal for streams with the same cause: the innermost error, or the message of the
// source without the path.
func root(s pipeline.StreamReport) string {
	if e, ok := errors.AsType[*wire.Error](s.Err); ok {
		text := e.Class.String()
		if e.Class != wire.Missing { // messages of the class Missing contain the path
			text += e.Message
		}
		if e.Err != nil {
			text += e.Err.Error()
		}
		return text
	}
	return strings.TrimPrefix(innermost(s.Err).Error(), s.Stream+": ")
}

// innermost() returns the innermost error that err wraps. If an error joins several errors, innermost follows the
// first.
func innermost(err error) error {
	inner := errors.Unwrap(err)
	if many, ok := err.(interface{ Unwrap() []error }); ok && len(many.Unwrap()) > 0 {
		inner = many.Unwrap()[0]
	}
	if inner == nil {
		return err
	}
	return innermost(inner)
}

// maxProblems is how many problems are printed without -v. If there are more, one of the printed problems usually
// explains the others.
const maxProblems = 12

func printProblems(w io.Writer, all []problem, o SummaryOptions) {
	printed := all
	if !o.Verbose {
		printed = all[:min(len(all), maxProblems)]
	}
	for _, p := range printed {
		names := p.streams[0]
		if n := len(p.streams); n > 1 {
			names = fmt.Sprintf("%d streams: %s", n, strings.Join(p.streams[:min(n, 4)], ", "))
			if n > 4 {
				names += ", …"
			}
		}
		if p.Destination != "" {
			names += " → " + p.Destination
		}
		fmt.Fprintf(w, "%s %s\n", Label(w, string(p.Status)), names)
		if p.Err != nil {
			fmt.Fprintf(w, "            %s\n", Printable(Suggest(plainerror.Text(p.Err.Error()), o.Config), false))
		}
		if p.Counts.Rejected > 0 {
			fmt.Fprintf(w, "            %s rejected\n", Plural(int(p.Counts.Rejected), "record"))
		}
		if h := remedy(p.StreamReport); h != "" {
			_ = Hint(w, "            ", h, o.Config)
		}
	}
	if n := len(all) - len(printed); n > 0 {
		fmt.Fprintf(w, "and %s more; -v shows them\n", Plural(n, "problem"))
	}
	fmt.Fprintln(w)
}

// printSums prints totals by module or, if there are several destinations, by destination.
func printSums(w io.Writer, streams []pipeline.StreamReport) {
	type sum struct {
		streams, done int
		counts        pipeline.Counts
	}
	by, several := "module", severalDestinations(streams)
	if several {
		by = "destination"
	}
	sums := map[string]*sum{}
	var total sum
	for _, s := range streams {
		name, _, _ := strings.Cut(s.Stream, ".")
		if several {
			name = s.Destination
		}
		m := sums[name]
		if m == nil {
			m = &sum{}
			sums[name] = m
		}
		for _, x := range []*sum{m, &total} {
			x.streams++
			if s.Status == pipeline.StatusComplete {
				x.done++
			}
			x.counts = x.counts.Add(s.Counts)
		}
	}
	g := NewTable(by, "#streams", "#fetched", "#written", "#unchanged", "#repeated", "#rejected", "#deleted")
	line := func(name string, s *sum) {
		n := Grouped(int64(s.streams))
		if s.done < s.streams {
			n = fmt.Sprintf("%d of %d", s.done, s.streams)
		}
		c := s.counts
		g.Add(name, n, c.Fetched, c.Written, c.Unchanged, c.Deduplicated, c.Rejected, c.Deleted)
	}
	for _, m := range slices.Sorted(maps.Keys(sums)) {
		line(m, sums[m])
	}
	if len(sums) > 1 && !several { // all destinations have the same rows, so a total over them would mean nothing
		line("all", &total)
	}
	g.Render(w)
}

// severalDestinations reports whether the reports cover more than one destination.
func severalDestinations(streams []pipeline.StreamReport) bool {
	return slices.ContainsFunc(streams, func(s pipeline.StreamReport) bool { return s.Destination != streams[0].Destination })
}

// printStreamReports lists every stream, in each destination.
func printStreamReports(w io.Writer, streams []pipeline.StreamReport) {
	several := severalDestinations(streams)
	g := NewTable("stream", "status", "verdict", "#fetched", "#written", "#unchanged", "#repeated", "#rejected", "#deleted", "#pages", "#requests", "#took").Toned("status", "verdict")
	for _, s := range streams {
		c, name := s.Counts, s.Stream
		if several {
			name += " → " + s.Destination
		}
		g.Add(name, string(s.Status), string(s.Verdict), c.Fetched, c.Written, c.Unchanged, c.Deduplicated, c.Rejected, c.Deleted, s.Pages, s.Requests, s.Duration)
	}
	g.Render(w)
	printWhys(w, streams)
}

// printWhys prints the reasons of the verdicts that are not proven.
func printWhys(w io.Writer, streams []pipeline.StreamReport) {
	g := NewTable("stream", "verdict", "because").Toned("verdict")
	printed := map[string]bool{}
	for _, s := range streams {
		line := fmt.Sprint(s.Stream, s.Verdict, s.Reasons)
		if s.Verdict == "" || s.Verdict == pipeline.Proven || printed[line] {
			continue
		}
		printed[line] = true
		g.Add(s.Stream, string(s.Verdict), Printable(s.Reasons, false))
	}
	if len(printed) > 0 {
		fmt.Fprintln(w)
		g.Render(w)
	}
}

// verdicts counts the streams by verdict. A stream in several destinations counts once, with its weakest verdict.
func verdicts(streams []pipeline.StreamReport) string {
	order := []pipeline.Verdict{pipeline.Proven, pipeline.Consistent, pipeline.Unproven, pipeline.Contradicted}
	least := map[string]int{}
	for _, s := range streams {
		if at := slices.Index(order, s.Verdict); at >= 0 {
			least[s.Stream] = max(least[s.Stream], at)
		}
	}
	n := map[pipeline.Verdict]int{}
	for _, at := range least {
		n[order[at]]++
	}
	var parts []string
	for _, v := range order {
		if n[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[v], v))
		}
	}
	if parts == nil {
		return "nothing proven"
	}
	return strings.Join(parts, ", ")
}

// printDone reports the streams that an earlier backfill has finished.
func printDone(w io.Writer, streams []pipeline.StreamReport) {
	n := 0
	for _, s := range streams {
		if s.Done.IsZero() {
			continue
		}
		if n++; n > maxProblems {
			continue
		}
		name := s.Title()
		if severalDestinations(streams) {
			name += " → " + s.Destination
		}
		fmt.Fprintf(w, "%s was finished on %s; --again reads it again\n", name, s.Done.Local().Format(time.DateTime))
	}
	if n > maxProblems {
		fmt.Fprintf(w, "and %s more\n", Plural(n-maxProblems, "stream"))
	}
}

// misplaced() reports whether a stream failed because the base URL of its surface is wrong. The run's error
// reports this once for all streams, so the stream's own error is not printed.
func misplaced(r pipeline.Report, s pipeline.StreamReport) bool {
	return slices.ContainsFunc(r.BaseErrors(), func(e *pipeline.BaseError) bool { return slices.Contains(e.Streams, s.Stream) })
}
