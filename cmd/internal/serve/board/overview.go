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
	State     Tone        `json:"state" jsonschema:"enum=ok,enum=attention,enum=failing,description=failing: something failed. attention: something needs a person's attention. ok: neither."`
	Summary   string      `json:"summary"`
	At        time.Time   `json:"at"`
	Since     time.Time   `json:"since" jsonschema:"description=When the daemon started."`
	Version   string      `json:"version"`
	Streams   StateCounts `json:"streams"`
	Running   []Running   `json:"running"`
	Budgets   []Gauge     `json:"rate"`
	Attention []Attention `json:"attention" jsonschema:"description=Most severe first."`
	Next      []Due       `json:"next" jsonschema:"description=Next slot of each pipeline\\, earliest first."`
}

// Attention is something that a person should look at.
type Attention struct {
	Tone     Tone            `json:"state" jsonschema:"enum=attention,enum=failing"`
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
	s = Overview{At: b.Clock().UTC(), Since: now.Since, Version: b.Version, Running: list(now.Running), Budgets: list(now.Budgets), Streams: tallyOf(streams)}
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
		all = append(all, Attention{Tone: ToneAttention, Text: text})
	}
	for _, p := range pipelines {
		if p.Paused {
			all = append(all, Attention{Tone: ToneAttention, Pipeline: p.Name, Text: "The schedule is paused."})
		}
		if len(p.Slots) > 0 && p.Slots[0].State == "missed" {
			all = append(all, Attention{Tone: ToneAttention, Pipeline: p.Name, Text: sentence("The last slot was missed", p.Slots[0].Why)})
		}
	}
	for _, s := range streams {
		if t := s.Tone(); t == ToneAttention || t == ToneFailing {
			all = append(all, Attention{Tone: t, Pipeline: s.Pipeline, Source: s.Source, Stream: s.Name, Status: s.Status, Text: cmp.Or(s.Error, s.Why, string(s.Status))})
		}
	}
	for _, w := range webhooks {
		if w.DeadSum > 0 {
			all = append(all, Attention{Tone: ToneAttention, Source: w.Source, Text: counted(w.DeadSum, "event") + " could not be applied."})
		}
		if w.Room > 0 && w.Captured >= w.Room {
			all = append(all, Attention{Tone: ToneAttention, Source: w.Source, Text: "The store of unverified deliveries is full: the oldest are dropped. Run `penstock webhooks learn " + w.Source + "` to find the signature scheme."})
		}
		if w.Quota > 0 && w.Bytes > w.Quota/10*9 {
			all = append(all, Attention{Tone: ToneFailing, Source: w.Source, Text: "The inbox is nearly full; soon deliveries are refused with 503."})
		}
	}
	slices.SortStableFunc(all, func(a, b Attention) int { return Graver(b.Tone, a.Tone) })
	return all
}

func verdictOf(s Overview) (Tone, string) {
	t := s.Streams
	of := fmt.Sprintf("%d of %s", t.Failing, counted(int64(t.All), "stream"))
	switch {
	case t.Failing > 0 && t.Attention > 0:
		return ToneFailing, fmt.Sprintf("%s failed, %d more need attention", of, t.Attention)
	case t.Failing > 0:
		return ToneFailing, of + " failed"
	case len(s.Attention) > 0 && s.Attention[0].Tone == ToneFailing:
		return ToneFailing, s.Attention[0].Text
	case t.Attention > 0:
		return ToneAttention, fmt.Sprintf("%d of %s need attention", t.Attention, counted(int64(t.All), "stream"))
	case len(s.Attention) > 0:
		return ToneAttention, counted(int64(len(s.Attention)), "item") + " to look at"
	case t.OK == 0 && len(s.Running) > 0:
		return ToneOK, "The first run is in progress"
	case t.OK == 0:
		return ToneOK, "Nothing has run yet"
	case t.New > 0:
		return ToneOK, fmt.Sprintf("Everything works; %s not read yet", counted(int64(t.New), "stream"))
	}
	return ToneOK, fmt.Sprintf("All %s are ok", counted(int64(t.All), "stream"))
}
