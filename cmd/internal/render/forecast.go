package render

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/forecast"
)

// Forecast prints the forecast of each stream, and the totals.
func Forecast(w io.Writer, f forecast.Forecast, deadline time.Duration) {
	g := NewTable("stream", "through", "#pages", "#requests", "#rows", "#bytes", "#takes", "#ends after", "basis", "")
	for _, s := range f.Streams {
		note := ""
		if s.Skipped {
			note = "skipped"
		}
		g.Add(s.Stream, s.Lane, s.Pages, s.Requests, s.Records, s.Bytes, Lasting(s.Seconds), Lasting(s.Ends), string(s.Basis), note)
	}
	g.Render(w)
	fmt.Fprintf(w, "\n%s: %s requests, %s rows, %s bytes in about %s; %d of them only guessed\n",
		Plural(len(f.Streams), "stream"), Grouped(f.Requests), Grouped(f.Records), Grouped(f.Bytes), Brief(Lasting(f.Seconds)), f.Guessed)
	if deadline > 0 {
		fmt.Fprintf(w, "a run of %s would skip %s\n", deadline, cmp.Or(Plural(f.Skipped, "stream"), "none"))
	}
}

// Lasting converts a number of seconds, limited to a thousand hours.
func Lasting(seconds float64) time.Duration {
	return time.Duration(min(seconds, (1000*time.Hour).Seconds()) * float64(time.Second))
}

// outlook compares a run with its forecast. It returns "" if there is no forecast.
func outlook(r pipeline.Report) string {
	o := r.Forecast
	if o == nil {
		return ""
	}
	text := fmt.Sprintf("forecast %s requests in %s: off by %+.0f %% and %+.0f %%", Grouped(o.Requests), Brief(Lasting(o.Seconds)), 100*o.RequestsError, 100*o.SecondsError)
	if o.Guessed > 0 {
		text += fmt.Sprintf(", %s only guessed", Plural(o.Guessed, "stream"))
	}
	return text
}
