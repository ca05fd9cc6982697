package render

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/forecast"
)

// Forecast prints the forecast of each stream, and the totals.
func Forecast(w io.Writer, f forecast.Forecast, deadline time.Duration) {
	g := NewTable("stream", "through", "#pages", "#requests", "#rows", "#bytes", "#takes", "#ends after", "basis", "")
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
	if f.Guessed > 0 {
		fmt.Fprintf(w, "nothing is known about %s\n", Plural(f.Guessed, "stream"))
	}
	if f.Sent > 0 {
		fmt.Fprintf(w, "%s looked at lists that no run has read yet\n", Plural(int(f.Sent), "request"))
	}
	if deadline > 0 {
		fmt.Fprintf(w, "a run of %s would skip %s\n", deadline, cmp.Or(Plural(f.Skipped, "stream"), "none"))
	}
}

// Lasting returns a number of seconds as a duration of at most a thousand hours.
func Lasting(seconds float64) time.Duration {
	return time.Duration(min(seconds, (1000*time.Hour).Seconds()) * float64(time.Second))
}

// outlook compares a run with its forecast. It returns "" if there is no forecast.
func outlook(r pipeline.Report) string {
	o := r.Forecast
	if o == nil {
		return ""
	}
	return fmt.Sprintf("forecast %s in %s: off by %+.0f %% and %+.0f %%", Plural(int(o.Requests), "request"), Brief(Lasting(o.Seconds)), 100*o.RequestsError, 100*o.SecondsError)
}
