package board

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Overview is the overall state that the first page shows.
type Overview struct {
	State     string       `json:"state" jsonschema:"enum=ok,enum=attention,enum=failing,description=failing: something failed. attention: a person should look. ok: neither."`
	Summary   string       `json:"summary"`
	At        time.Time    `json:"at"`
	Since     time.Time    `json:"since" jsonschema:"description=When the daemon started."`
	Version   string       `json:"version"`
	Streams   StreamCounts `json:"streams"`
	Running   []Running    `json:"running"`
	Budgets   []Gauge      `json:"rate"`
	Attention []Attention  `json:"attention" jsonschema:"description=Most severe first."`
	Next      []Due        `json:"next" jsonschema:"description=Next slot of each pipeline\\, earliest first."`
}

// StreamCounts counts streams by state. A stream counts once for each of its destinations.
type StreamCounts struct {
	All       int `json:"all"`
	OK        int `json:"ok"`
	Attention int `json:"attention"`
	Failing   int `json:"failing"`
	New       int `json:"new" jsonschema:"description=Not read by any run yet."`
}

// Attention is something that a person should look at.
type Attention struct {
	Tone     string          `json:"state" jsonschema:"enum=attention,enum=failing"`
	Pipeline string          `json:"pipeline,omitempty"`
	Stream   string          `json:"stream,omitempty"`
	Source   string          `json:"source,omitempty"`
	Status   pipeline.Status `json:"status,omitempty"`
	Text     string          `json:"text"`
}

// Due is when a pipeline runs next.
type Due struct {
	Pipeline string    `json:"pipeline"`
	At       time.Time `json:"at"`
}

// Tones are severities, from mild to severe. Pages show them as colors.
const (
	toneNew  = "new"
	toneOK   = "ok"
	toneBusy = "busy"
	toneWarn = "attention"
	toneBad  = "failing"
)

func tone(s pipeline.Status) string {
	switch s {
	case "":
		return toneNew
	case pipeline.StatusComplete:
		return toneOK
	case pipeline.StatusRunning:
		return toneBusy
	case pipeline.StatusFailed:
		return toneBad
	}
	return toneWarn
}

const maxConcerns = 100

func (b *Board) status(ctx context.Context) (Overview, error) {
	var s Overview
	now, err := b.Facts.Now(ctx)
	if err != nil {
		return s, err
	}
	pipelines, err := b.Facts.Pipelines(ctx)
	if err != nil {
		return s, err
	}
	all, err := b.Facts.Streams(ctx, "")
	if err != nil {
		return s, err
	}
	streams := all.Items
	webhooks, err := b.Facts.Webhooks(ctx)
	if err != nil {
		return s, err
	}
	s = Overview{At: b.Clock().UTC(), Since: now.Since, Version: b.Version, Running: list(now.Running), Budgets: list(now.Budgets), Streams: tally(streams)}
	for i := range s.Running {
		s.Running[i].Reading = list(s.Running[i].Reading)
	}
	s.Next = nextOf(pipelines)
	s.Attention = list(concerns(now.Notices, pipelines, streams, webhooks))
	s.State, s.Summary = verdictOf(s)
	s.Attention = s.Attention[:min(len(s.Attention), maxConcerns)]
	return s, nil
}

// list returns an empty slice for nil, so that JSON has [] and not null.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

func tally(streams []Stream) StreamCounts {
	t := StreamCounts{All: len(streams)}
	for _, s := range streams {
		switch s.Tone() {
		case toneOK:
			t.OK++
		case toneBad:
			t.Failing++
		case toneNew:
			t.New++
		default:
			t.Attention++
		}
	}
	return t
}

func nextOf(all []Pipeline) []Due {
	next := []Due{}
	for _, p := range all {
		if !p.Paused && len(p.Next) > 0 {
			next = append(next, Due{p.Name, p.Next[0]})
		}
	}
	slices.SortStableFunc(next, func(a, b Due) int { return a.At.Compare(b.At) })
	return next
}

func concerns(notices []string, pipelines []Pipeline, streams []Stream, webhooks []Webhook) []Attention {
	var all []Attention
	for _, text := range notices {
		all = append(all, Attention{Tone: toneWarn, Text: text})
	}
	for _, p := range pipelines {
		if p.Paused {
			all = append(all, Attention{Tone: toneWarn, Pipeline: p.Name, Text: "The schedule is paused."})
		}
		if len(p.Slots) > 0 && p.Slots[0].State == "missed" {
			all = append(all, Attention{Tone: toneWarn, Pipeline: p.Name, Text: sentence("The last slot was missed", p.Slots[0].Why)})
		}
	}
	for _, s := range streams {
		if t := s.Tone(); t == toneWarn || t == toneBad {
			all = append(all, Attention{Tone: t, Pipeline: s.Pipeline, Source: s.Source, Stream: s.Name, Status: s.Status, Text: cmp.Or(s.Error, s.Why, string(s.Status))})
		}
	}
	for _, w := range webhooks {
		if w.DeadSum > 0 {
			all = append(all, Attention{Tone: toneWarn, Source: w.Source, Text: counted(w.DeadSum, "event") + " could not be applied."})
		}
		if w.Room > 0 && w.Captured >= w.Room {
			all = append(all, Attention{Tone: toneWarn, Source: w.Source, Text: "The store of unverified deliveries is full: the oldest are dropped. Run `penstock webhooks learn " + w.Source + "` to find the signature scheme."})
		}
		if w.Quota > 0 && w.Bytes > w.Quota/10*9 {
			all = append(all, Attention{Tone: toneBad, Source: w.Source, Text: "The inbox is nearly full; soon deliveries are refused with 503."})
		}
	}
	slices.SortStableFunc(all, func(a, b Attention) int { return cmp.Compare(gravity(b.Tone), gravity(a.Tone)) })
	return all
}

// Graver compares two tones by severity. It is negative if a is milder.
func Graver(a, b string) int { return cmp.Compare(gravity(a), gravity(b)) }

func gravity(tone string) int {
	return slices.Index([]string{toneNew, toneOK, toneBusy, toneWarn, toneBad}, tone)
}

func verdictOf(s Overview) (string, string) {
	t := s.Streams
	of := fmt.Sprintf("%d of %s", t.Failing, counted(int64(t.All), "stream"))
	switch {
	case t.Failing > 0 && t.Attention > 0:
		return toneBad, fmt.Sprintf("%s failed, %d more need attention", of, t.Attention)
	case t.Failing > 0:
		return toneBad, of + " failed"
	case len(s.Attention) > 0 && s.Attention[0].Tone == toneBad:
		return toneBad, s.Attention[0].Text
	case t.Attention > 0:
		return toneWarn, fmt.Sprintf("%d of %s need attention", t.Attention, counted(int64(t.All), "stream"))
	case len(s.Attention) > 0:
		return toneWarn, counted(int64(len(s.Attention)), "item") + " to look at"
	case t.OK == 0 && len(s.Running) > 0:
		return toneOK, "The first run is in progress"
	case t.OK == 0:
		return toneOK, "Nothing has run yet"
	case t.New > 0:
		return toneOK, fmt.Sprintf("Everything works; %s not read yet", counted(int64(t.New), "stream"))
	}
	return toneOK, fmt.Sprintf("All %s are ok", counted(int64(t.All), "stream"))
}
