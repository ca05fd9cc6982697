package facts

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/state"
)

// Workspaces are the sources that pipelines read.
type Workspaces struct {
	Names func() []string // returns the names of the sources in the current configuration
	State state.Store     // the state, which has the paused sources and the last outcome of each source
}

const sourcesFresh = 2 * time.Second

// sourceList caches the list of sources. Sources with problems come first.
type sourceList struct {
	mu  sync.Mutex
	at  time.Time
	all []board.Source
}

// Sources implements board.Health.
func (f *Facts) Sources(ctx context.Context, q board.Query) (out board.Sources, err error) {
	all, err := f.sourceList.read(ctx, f.Workspaces)
	if err != nil {
		return out, err
	}
	name := strings.ToLower(q.Source)
	for _, s := range all {
		if name != "" && !strings.Contains(strings.ToLower(s.Name), name) {
			continue
		}
		out.Tally.Add(s.State)
		if q.Status != "" && q.Status != string(s.State) {
			continue
		}
		if out.Total >= q.Offset && (q.Limit == 0 || len(out.Items) < q.Limit) {
			out.Items = append(out.Items, s)
		}
		out.Total++
	}
	return out, nil
}

func (l *sourceList) read(ctx context.Context, w Workspaces) ([]board.Source, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.Names == nil || time.Since(l.at) < sourcesFresh && !l.at.IsZero() {
		return l.all, nil
	}
	paused, records, err := w.read(ctx)
	if err != nil {
		return nil, err
	}
	of := map[string][]state.SourceRecord{}
	for _, rec := range records {
		of[rec.Source] = append(of[rec.Source], rec)
	}
	all := make([]board.Source, 0, len(records))
	for _, name := range w.Names() {
		if of[name] == nil {
			of[name] = []state.SourceRecord{{Source: name}}
		}
		for _, rec := range of[name] {
			all = append(all, sourceOf(rec, paused))
		}
	}
	slices.SortStableFunc(all, func(a, b board.Source) int {
		return cmp.Or(worst(a.State)-worst(b.State), cmp.Compare(b.Failures, a.Failures), cmp.Compare(a.Name, b.Name))
	})
	l.all, l.at = all, time.Now()
	return all, nil
}

func (l *sourceList) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = time.Time{}
}

func (w Workspaces) read(ctx context.Context) (paused map[string]state.Pause, records []state.SourceRecord, err error) {
	s, err := w.State.ReadSources(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if paused, err = s.Paused(ctx); err == nil {
		records, err = s.Records(ctx, "")
	}
	return paused, records, errors.Join(err, s.Close())
}

func sourceOf(r state.SourceRecord, paused map[string]state.Pause) board.Source {
	s := board.Source{
		Name: r.Source, Pipeline: r.Pipeline, Status: pipeline.Status(r.Status), Run: r.Run, At: r.At, Complete: r.Complete,
		Failures: r.Failures, Rows: r.Rows, Requests: r.Requests, Error: r.Error, State: board.ToneOf(pipeline.Status(r.Status)),
	}
	if p, ok := paused[r.Source]; ok {
		s.State, s.Paused, s.Error = board.TonePaused, p.At, cmp.Or(p.Why, r.Error)
	}
	return s
}

func worst(s board.Tone) int {
	return slices.Index([]board.Tone{board.ToneFailing, board.ToneAttention, board.TonePaused, board.ToneNew, board.ToneOK}, s)
}

// PauseSource implements board.Control.
func (f *Facts) PauseSource(ctx context.Context, name string) error {
	return f.changeSource(ctx, name, func(s state.Sources) error {
		return s.Pause(ctx, name, state.Pause{At: f.Clock(), Why: "at the dashboard"})
	})
}

// ResumeSource implements board.Control.
func (f *Facts) ResumeSource(ctx context.Context, name string) error {
	return f.changeSource(ctx, name, func(s state.Sources) error {
		_, err := s.Resume(ctx, name)
		return err
	})
}

func (f *Facts) changeSource(ctx context.Context, name string, do func(state.Sources) error) error {
	if f.Workspaces.Names == nil || !slices.Contains(f.Workspaces.Names(), name) {
		return board.ErrUnknown
	}
	s, err := f.Workspaces.State.OpenSources(ctx)
	if err != nil {
		return err
	}
	err = errors.Join(do(s), s.Close())
	f.sourceList.forget()
	f.feed.Publish(board.Update{Page: "sources"})
	return err
}
