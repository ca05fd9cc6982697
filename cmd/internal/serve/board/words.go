package board

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	from := 0
	if n < 0 {
		from = 1
	}
	for i := len(s) - 3; i > from; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func number(v any) string {
	switch n := v.(type) {
	case int:
		return grouped(int64(n))
	case int64:
		return grouped(n)
	case uint64:
		return grouped(int64(min(n, math.MaxInt64)))
	}
	return fmt.Sprint(v)
}

func counted(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return grouped(n) + " " + thing + "s"
}

func sentence(what, why string) string {
	if why == "" {
		return what + "."
	}
	return what + ": " + why
}

func ageOf(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	if d := t.Sub(now); d > 0 {
		return "in " + span(d)
	}
	return span(now.Sub(t)) + " ago"
}

func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func took(d time.Duration) string {
	switch {
	case d <= 0:
		return "–"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

func bytesOf(n int64) string {
	f, units := float64(n), []string{"B", "kB", "MB", "GB", "TB"}
	for f >= 1000 && len(units) > 1 {
		f, units = f/1000, units[1:]
	}
	if f < 10 && units[0] != "B" {
		return fmt.Sprintf("%.1f %s", f, units[0])
	}
	return fmt.Sprintf("%.0f %s", f, units[0])
}

func perSecond(f float64) string {
	if f > 0 && f < 10 {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return grouped(int64(math.Round(f)))
}

func percent(f float64) string { return strconv.FormatFloat(math.Floor(f*100), 'f', 0, 64) + " %" }

func stamp(t time.Time) string { return stampIn(t, "UTC") }

// in returns the time in the zone, or in UTC if the zone is "" or unknown.
func in(t time.Time, zone string) time.Time {
	if at, err := time.LoadLocation(zone); err == nil {
		return t.In(at)
	}
	return t.UTC()
}

func zoned(t time.Time, zone string) string { return in(t, zone).Format("Mon 2 Jan 15:04 MST") }

func stampIn(t time.Time, zone string) string {
	if t.IsZero() {
		return "–"
	}
	return in(t, zone).Format("2 Jan 2006 15:04:05 MST")
}

func clockIn(t time.Time, zone string) string { return in(t, zone).Format("15:04:05") }

// lines splits a text of several errors or hints. It leaves out empty lines.
func lines(text string) (all []string) {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

func brief(s string, runes int) string {
	if len(s) <= runes {
		return s
	}
	r := []rune(s)
	if len(r) <= runes {
		return s
	}
	return strings.TrimRight(string(r[:runes-1]), " ") + "…"
}

type fact struct{ Name, Value string }

func evidence(raw json.RawMessage) []fact {
	var all map[string]any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if d.Decode(&all) != nil {
		return nil
	}
	var out []fact
	for _, k := range slices.Sorted(maps.Keys(all)) {
		switch v := all[k].(type) {
		case nil:
		case bool:
			if v {
				out = append(out, fact{words(k), "yes"})
			}
		case string:
			if v != "" && k != "why" {
				out = append(out, fact{words(k), v})
			}
		case json.Number:
			if n, err := v.Int64(); err == nil && n != 0 {
				out = append(out, fact{words(k), grouped(n)})
			}
		default:
			text, _ := json.Marshal(v)
			out = append(out, fact{words(k), brief(string(text), 300)})
		}
	}
	return out
}

func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

func statusWord(s pipeline.Status) string {
	if s == "" {
		return "not read yet"
	}
	return string(s)
}

func triggerWord(trigger string) string {
	if w, ok := map[string]string{"schedule": "at its slot", "catch_up": "for a missed slot", "resume": "after an interruption",
		"manual": "manually", "retry": "retried manually", "refresh": "because of a webhook"}[trigger]; ok {
		return w
	}
	return trigger
}

func statusHint(s pipeline.Status) string {
	return map[pipeline.Status]string{
		"":                         "not read by any run yet",
		pipeline.StatusComplete:    "read to its end, and everything is committed",
		pipeline.StatusHeld:        "waits for a decision: missing rows were kept, or a table was not changed",
		pipeline.StatusUnavailable: "the source does not provide the stream: no permission, switched off, or removed",
		pipeline.StatusParked:      "postponed; a later run continues",
		pipeline.StatusLagging:     "this destination is behind the others; a later run catches up",
		pipeline.StatusFailed:      "failed; committed data is safe",
		pipeline.StatusStopped:     "stopped by a signal before its end; a later run continues",
		pipeline.StatusRunning:     "in progress",
		pipeline.StatusPartial:     "progress was committed, but some work is left",
	}[s]
}

func verdictTone(v pipeline.Verdict) Tone {
	switch v {
	case pipeline.Proven:
		return ToneOK
	case pipeline.Contradicted:
		return ToneAttention
	case pipeline.Consistent:
		return ToneBusy
	}
	return ToneNew
}

func verdictHint(v pipeline.Verdict) string {
	return map[pipeline.Verdict]string{
		pipeline.Proven:       "the pass has proven that it read every record",
		pipeline.Consistent:   "no sign of missing records, but no full proof",
		pipeline.Unproven:     "unknown whether every record was read",
		pipeline.Contradicted: "there is evidence that records are missing",
	}[v]
}

// pipelinePath returns the path of a pipeline's page. Like the functions below, it escapes names.
func pipelinePath(name string) string { return "/pipelines/" + url.PathEscape(name) }
func sourcePath(name string) string   { return "/sources/" + url.PathEscape(name) }
func streamPath(pipeline, s string) string {
	return pipelinePath(pipeline) + "/streams/" + url.PathEscape(s)
}

// streamOfPath returns the path of a stream's page. The parameter source is "" if the pipeline has only one source.
func streamOfPath(pipeline, source, s string) string {
	return partPath(streamPath(pipeline, s), source)
}
func runPath(id string) string           { return "/runs/" + url.PathEscape(id) }
func runOfPath(id, source string) string { return partPath(runPath(id), source) }
func partPath(path, source string) string {
	if source == "" {
		return path
	}
	return queryPath(path, "source", source)
}
func queryPath(path string, pairs ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return path + "?" + v.Encode()
}
