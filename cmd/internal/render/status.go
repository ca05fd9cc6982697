package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Status prints all streams as a table that is narrow enough for a terminal. Below the table, it prints
// the full text about streams that need attention, and the given lines about runs in progress.
func Status(w io.Writer, t Answer, now time.Time, running []string) {
	at := func(name string) int {
		return slices.IndexFunc(t.Columns, func(f arrow.Field) bool { return f.Name == name })
	}
	text := func(r []any, name string) string { s, _ := r[at(name)].(string); return s }
	several := slices.ContainsFunc(t.Rows, func(r []any) bool { return text(r, "pipeline") != text(t.Rows[0], "pipeline") })
	name := func(r []any) string {
		name := text(r, "stream")
		for _, of := range []string{"source", "destination"} { // if there are several sources or destinations
			if at(of) >= 0 && text(r, of) != "" {
				name = text(r, of) + " " + name
			}
		}
		if several {
			name = text(r, "pipeline") + " " + name
		}
		return name
	}
	g := NewTable("stream", "state", "verdict", "#fetched", "#deleted", "#age", "why").Toned("state", "verdict")
	var open []string
	for _, r := range t.Rows {
		state, why, drift := text(r, "state"), text(r, "why"), text(r, "drift")
		if state != string(pipeline.StatusComplete) {
			open = append(open, Label(w, state)+" "+Printable(cmp.Or(why, name(r)), false))
			why = "see below"
		}
		if drift != "" {
			open = append(open, Label(w, "drift")+" "+Printable(name(r)+": "+drift, false))
		}
		if failed := text(r, "checks"); failed != "" {
			open = append(open, Label(w, "check")+" "+Printable(name(r)+": "+failed, false))
		}
		g.Add(name(r), state, text(r, "verdict"), r[at("fetched")], r[at("deleted")], ageOf(r[at("updated_at")], now), why)
	}
	g.Render(w)
	open = append(open, running...)
	if len(open) > 0 {
		fmt.Fprintln(w)
	}
	for _, o := range open {
		fmt.Fprintln(w, o)
	}
}

// UnderWay says that a run has begun and not ended. The table of Status shows the outcomes of the runs before it.
func UnderWay(run, name string, since time.Duration) string {
	return fmt.Sprintf("%-11s %s: run %s began %s ago and has not ended; until it has read a stream, the table shows how earlier runs ended",
		pipeline.StatusRunning, name, run, spanOf(since))
}

// ageOf formats the time that has passed since at, in its largest unit, as in "5m". It returns "" if the value of at
// is not a time.
func ageOf(at any, now time.Time) string {
	t, ok := at.(time.Time)
	if !ok {
		return ""
	}
	return spanOf(now.Sub(t))
}

func spanOf(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
