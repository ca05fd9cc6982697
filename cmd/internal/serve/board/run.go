package board

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// The method whole() replaces nil slices by empty ones, so that JSON has [] and not null.
func (d RunDetail) whole() RunDetail {
	d.Destinations, d.Passes, d.Rejects, d.Groups = list(d.Destinations), list(d.Passes), list(d.Rejects), list(d.Groups)
	d.Changes, d.Checks, d.Log, d.Commands = list(d.Changes), list(d.Checks), list(d.Log), list(d.Commands)
	return d
}

type runView struct {
	RunDetail
	Timeline timeline
	Live     *Running
}

func (v runView) title() string { return "Run " + v.ID }

func (b *Board) runPage(r *http.Request) (any, error) {
	d, err := b.Facts.Run(r.Context(), r.PathValue("run"), queryOf(r).Source)
	if err != nil {
		return nil, err
	}
	v := runView{RunDetail: d}
	now, err := b.Facts.Now(r.Context())
	if err != nil {
		return nil, err
	}
	for _, running := range now.Running {
		if running.Run == d.ID && d.Source == "" {
			v.Live = &running
		}
	}
	v.Timeline = timelineOf(d, v.Live, b.Clock())
	return v, nil
}

// Problems returns the passes that failed or need attention, the gravest first.
func (d RunDetail) Problems() []Pass {
	all := slices.DeleteFunc(slices.Clone(d.Passes), func(p Pass) bool { return p.severity() != ToneFailing && p.severity() != ToneAttention })
	slices.SortStableFunc(all, func(a, b Pass) int {
		return cmp.Or(Graver(b.severity(), a.severity()), strings.Compare(a.Stream, b.Stream), strings.Compare(a.Source, b.Source))
	})
	return all
}

func (p Pass) severity() Tone {
	if t := p.Tone(); t != ToneOK || p.Verdict != pipeline.Contradicted {
		return t
	}
	return ToneAttention
}

// Tone returns the severity of the run's outcome.
func (r Run) Tone() Tone { return ToneOf(r.Status) }

// Took returns how long the run took, or 0 if it has not ended.
func (r Run) Took() time.Duration {
	if r.Ended.IsZero() {
		return 0
	}
	return r.Ended.Sub(r.Started)
}

// Tone returns the severity of the pass's outcome.
func (p Pass) Tone() Tone { return ToneOf(p.Status) }

// Took returns how long the pass took, or 0 if its times are not known.
func (p Pass) Took() time.Duration {
	if p.Started.IsZero() || p.Ended.IsZero() {
		return 0
	}
	return p.Ended.Sub(p.Started)
}

// Sum has the counts of a run, and says whether these add up.
type Sum struct {
	pipeline.Counts
	AddsUp bool // Invariant 14
}

// Sum returns the counts of the run, and whether they add up.
func (r Run) Sum() Sum {
	c := r.Counts
	return Sum{c, c.Fetched == c.Written+c.Unchanged+c.Deduplicated+c.Rejected}
}

// Tone returns the severity of the stream's state. A contradicted pass or a failed check needs attention even if the
// status is complete.
func (s Stream) Tone() Tone {
	failed := slices.ContainsFunc(s.Checks, func(c Check) bool { return !c.OK() })
	if t := ToneOf(s.Status); t != ToneOK || s.Verdict != pipeline.Contradicted && !failed {
		return t
	}
	return ToneAttention
}

// OK reports whether the check has passed.
func (c Check) OK() bool { return c.Result == "ok" }

// Certificate returns the last pass that read the stream completely. It returns a zero value if there is none.
func (s Stream) Certificate() (last PassSummary) {
	if n := len(s.Recent); n > 0 {
		last = s.Recent[n-1]
	}
	return last
}

// Took returns how long the command took.
func (c Command) Took() time.Duration { return max(0, c.Ended.Sub(c.Started)) }

// Status returns the result of the command as the status of a run.
func (c Command) Status() pipeline.Status {
	switch pipeline.CommandResult(c.Result) {
	case pipeline.CommandOK:
		return pipeline.StatusComplete
	case pipeline.CommandStopped:
		return pipeline.StatusStopped
	}
	return pipeline.StatusFailed
}

// GroupRejects counts rejects by stream, pointer and reason, the largest group first. The first reject of a group is its
// example.
func GroupRejects(rejects []Reject) (all []Group) {
	at := map[Group]int{}
	for _, r := range rejects {
		g := Group{Pipeline: r.Pipeline, Source: r.Source, Stream: r.Stream, Destination: r.Destination, Pointer: r.Pointer, Wanted: r.Wanted, Reason: r.Reason}
		i, ok := at[g]
		if !ok {
			i = len(all)
			at[g] = i
			g.Example = r.Raw
			all = append(all, g)
		}
		all[i].Count++
	}
	slices.SortStableFunc(all, func(a, b Group) int { return cmp.Compare(b.Count, a.Count) })
	return all
}

// Tone returns the severity of a slot's outcome.
func (s Slot) Tone() Tone {
	switch s.State {
	case "ran":
		return ToneOf(s.Status)
	case "running":
		return ToneBusy
	case "missed":
		return ToneAttention
	}
	return ToneNew
}

// Share returns the progress of a run, from 0 to 1.
func (r Running) Share() float64 {
	done := float64(r.Ended)
	for _, s := range r.Reading {
		done += s.Share()
	}
	return min(1, done/float64(max(1, r.Streams)))
}

// Share returns the progress of a stream, from 0 to 1. It is 0 if the length of the list is not known.
func (r Reading) Share() float64 {
	if r.Total <= 0 {
		return 0
	}
	return min(1, float64(r.Records)/float64(r.Total))
}

// Share returns how much of the allowed rate is used, from 0 to 1.
func (g Gauge) Share() float64 {
	if g.Allowed <= 0 {
		return 0
	}
	return min(1, g.Used/g.Allowed)
}

// Share returns which part of the changes was announced by events, from 0 to 1.
func (c Coverage) Share() float64 {
	return float64(c.Announced) / float64(max(1, c.Announced+c.Missed))
}
