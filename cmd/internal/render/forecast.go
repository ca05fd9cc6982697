package render

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/forecast"
)

// Forecast prints the forecast of each stream, and the totals.
func Forecast(w io.Writer, f forecast.Forecast, deadline time.Duration) {
	g := NewTable("stream", "through", "#pages", "#requests", "#rows", "#bytes", "#takes", "#ends after", "basis", "note")
	for _, s := range f.Streams {
		var notes []string
		if s.AtLeast {
			notes = append(notes, "at least")
		}
		if s.Skipped {
			notes = append(notes, "skipped")
		}
		g.Add(s.Stream, s.Lane, s.Pages, s.Requests, s.Records, s.Bytes, Lasting(s.Seconds), Lasting(s.Ends), string(s.Basis), strings.Join(notes, ", "))
	}
	g.Render(w)
	about, within := "", "about "
	if f.AtLeast {
		about, within = "at least ", "at least "
	}
	fmt.Fprintf(w, "\n%s: %s%s, %s, %s bytes in %s%s\n", Plural(len(f.Streams), "stream"), about,
		Plural(int(f.Requests), "request"), Plural(int(f.Records), "row"), Grouped(f.Bytes), within, Brief(Lasting(f.Seconds)))
	printUnknown(w, f)
	if f.Sent > 0 {
		fmt.Fprintf(w, "%s looked at lists that no run has read yet\n", Plural(int(f.Sent), "request"))
	}
	if deadline > 0 {
		fmt.Fprintf(w, "a run of %s would skip %s\n", deadline, Plural(f.Skipped, "stream"))
	}
}

// printUnknown prints what the forecast does not know.
func printUnknown(w io.Writer, f forecast.Forecast) {
	named := func(is func(forecast.Stream) bool) (n int, names string) {
		var all []string
		for _, s := range f.Streams {
			if is(s) {
				all = append(all, s.Stream)
			}
		}
		return len(all), shortened(all)
	}
	if n, names := named(func(s forecast.Stream) bool { return s.Basis == forecast.Guessed }); n > 0 {
		fmt.Fprintf(w, "unknown: the size of %s, each counted with as few requests as possible: %s\n", Plural(n, "stream"), names)
	}
	if n, names := named(func(s forecast.Stream) bool { return s.Basis == forecast.Stated && s.AtLeast }); n > 0 {
		fmt.Fprintf(w, "unknown: how many pages follow the first pages of %s: %s\n", Plural(n, "list"), names)
	}
	if n, names := named(func(s forecast.Stream) bool { return s.Basis == forecast.Derived && s.AtLeast }); n > 0 {
		fmt.Fprintf(w, "unknown: how many parents %s will have: %s\n", Plural(n, "stream"), names)
	}
	for _, lane := range slices.Sorted(maps.Keys(f.AssumedRates)) {
		fmt.Fprintf(w, "unknown: the rate limit of %s; the times assume %g requests per second\n", lane, f.AssumedRates[lane])
	}
	if f.Unmeasured {
		fmt.Fprintln(w, "unknown: how long the source takes to answer; until a run is complete, only the rate limits determine the times")
	}
}

// mostUnknown is how many streams a line about unknown sizes names.
const mostUnknown = 6

// Lasting returns a number of seconds as a duration of at most a thousand hours.
func Lasting(seconds float64) time.Duration {
	return time.Duration(min(seconds, (1000*time.Hour).Seconds()) * float64(time.Second))
}

// outlook compares a run with its forecast. It returns "" if there is no forecast.
func outlook(r pipeline.Report) string {
	o := r.Forecast
	if o == nil || r.Requests == 0 { // nothing was read, for example because every stream is held
		return ""
	}
	return fmt.Sprintf("forecast %s in %s: off by %+.0f %% and %+.0f %%", Plural(int(o.Requests), "request"), Brief(Lasting(o.Seconds)), 100*o.RequestsError, 100*o.SecondsError)
}

// Found returns lines that say what a source has. The argument `refused` has the lists that the credentials may not read.
// Of `failed` more lists, the first page could not be read, for example because of `trouble`.
func Found(f forecast.Forecast, refused []string, failed int, trouble error) []string {
	least := ""
	if f.AtLeast {
		least = "at least "
	}
	lines := []string{fmt.Sprintf("found %s with %s%s; a first run takes %s%s and %s", Plural(len(f.Streams), "stream"), least,
		Plural(int(f.Records), "row"), cmp.Or(least, "about "), Plural(int(f.Requests), "request"), Brief(Lasting(f.Seconds)))}
	if len(refused) > 0 {
		lines = append(lines, fmt.Sprintf("the credentials may not read %s: %s", Plural(len(refused), "list"), shortened(refused)),
			// Cause: the credentials may not read some lists
			"hint: give them the rights, or leave these streams out: "+without(refused))
	}
	if failed > 0 {
		line := "could not look at " + Plural(failed, "list")
		if trouble != nil {
			line += ", for example: " + Printable(trouble.Error(), false)
		}
		lines = append(lines, line)
	}
	return lines
}

// without returns the line of the configuration that leaves streams out. If there are many, it has only the first of them.
func without(streams []string) string {
	patterns := []string{`"*"`}
	for _, s := range streams[:min(len(streams), mostUnknown)] {
		patterns = append(patterns, `"!`+s+`"`)
	}
	text := "streams: [" + strings.Join(patterns, ", ") + "]"
	if more := len(streams) - mostUnknown; more > 0 {
		text += fmt.Sprintf(", and %d more in the same way", more)
	}
	return text
}

// shortened joins the first names of a list.
func shortened(names []string) string {
	text := strings.Join(names[:min(len(names), mostUnknown)], ", ")
	if len(names) > mostUnknown {
		text += ", …"
	}
	return text
}
