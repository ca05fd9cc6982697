package fleet

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state/plainerror"
)

// Outcome is the result of one source in a run over many sources.
type Outcome struct {
	Source   string          `json:"source"`
	Status   pipeline.Status `json:"status"`
	Streams  int             `json:"streams"`           // streams that were read
	Short    int             `json:"short,omitempty"`   // streams that are not complete
	Requests int             `json:"requests"`          // requests to the source
	Written  int64           `json:"written"`           // rows, over all destinations
	Deleted  int64           `json:"deleted,omitempty"` // rows, over all destinations
	Seconds  float64         `json:"seconds"`
	Error    string          `json:"error,omitempty"` // first reason why the source is not complete

	code int
}

// Complete reports whether every stream of the source is complete.
func (o Outcome) Complete() bool { return o.Status == pipeline.StatusComplete }

// Outcomes collects the outcomes of the sources of one run. Its size grows with the number of sources
// plus the number of streams, not with their product. It is safe for concurrent use. // Invariant 6
type Outcomes struct {
	run, pipeline string
	started       time.Time

	mu       sync.Mutex
	outcomes []Outcome
	streams  []pipeline.StreamReport // summed over the sources, by stream and destination
	at       map[[2]string]int
	requests int
	results  int // results of checks in streams
}

// mostResults limits the results of checks in one report. Beyond it, only results that are not good are kept, up to the
// same number again. // Invariant 6
const mostResults = 20_000

// NewOutcomes returns Outcomes for a run of the named pipeline. They are empty at first.
func NewOutcomes(run, name string) *Outcomes {
	return &Outcomes{run: run, pipeline: name, started: time.Now(), at: map[[2]string]int{}}
}

// Run returns the run's id.
func (t *Outcomes) Run() string { return t.run }

// Add records the outcome of a source: the report of its run, or the error that prevented the run.
func (t *Outcomes) Add(source string, r pipeline.Report, err error) Outcome {
	o := Outcome{Source: source, Status: r.Status, Streams: len(r.Streams), Requests: r.Requests, Seconds: r.Ended.Sub(r.Started).Seconds(), code: r.ExitCode()}
	total := r.Totals()
	o.Written, o.Deleted = total.Counts.Written, total.Counts.Deleted
	if err == nil {
		err = r.Err
	}
	for _, s := range r.Streams {
		if s.Status == pipeline.StatusComplete {
			continue
		}
		o.Short++
		if err == nil {
			err = s.Err
		}
	}
	if r.Run == "" {
		o.Status, o.Seconds, o.code = pipeline.StatusFailed, 0, 1
	}
	if err != nil {
		o.Error = plainerror.Text(err.Error())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes = append(t.outcomes, o)
	t.requests += r.Requests
	for _, s := range r.Streams {
		t.add(source, s)
	}
	return o
}

func (t *Outcomes) add(source string, s pipeline.StreamReport) {
	s.Notices, s.Webhooks = nil, nil
	checked := s.Checks
	s.Checks = nil
	for _, c := range checked {
		if t.results < mostResults || !c.Good() && t.results < 2*mostResults {
			c.Source = source
			s.Checks = append(s.Checks, c)
			t.results++
		}
	}
	key := [2]string{s.Stream, s.Destination}
	i, known := t.at[key]
	if !known {
		t.at[key] = len(t.streams)
		t.streams = append(t.streams, s)
		return
	}
	sum := &t.streams[i]
	sum.Counts = sum.Counts.Add(s.Counts)
	sum.Checks = append(sum.Checks, s.Checks...)
	sum.Missing += s.Missing
	sum.Passes += s.Passes
	sum.Pages += s.Pages
	sum.Requests += s.Requests
	sum.Bytes += s.Bytes
	sum.Duration = max(sum.Duration, s.Duration)
	if sum.Status == pipeline.StatusComplete && s.Status != pipeline.StatusComplete {
		sum.Status, sum.Verdict, sum.Reasons, sum.Err, sum.NotBefore = s.Status, s.Verdict, s.Reasons, s.Err, s.NotBefore
	}
}

// Outcomes returns the outcomes so far, the worst first.
func (t *Outcomes) Outcomes() []Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Clone(t.outcomes)
	slices.SortFunc(all, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(rank(a.Status), rank(b.Status)), cmp.Compare(a.Source, b.Source))
	})
	return all
}

func rank(s pipeline.Status) int {
	switch s {
	case pipeline.StatusFailed:
		return 0
	case pipeline.StatusStopped:
		return 1
	case pipeline.StatusComplete:
		return 3
	}
	return 2
}

// Report returns one report over all sources. Its status is stopped if a source was stopped, complete if all are
// complete, failed if all failed, and otherwise partial. // Invariant 14
func (t *Outcomes) Report() pipeline.Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := pipeline.Report{
		Run: t.run, Pipeline: t.pipeline, Status: pipeline.StatusComplete, Started: t.started, Ended: time.Now(),
		Requests: t.requests, Streams: slices.Clone(t.streams),
	}
	failed := 0
	for _, o := range t.outcomes {
		switch o.Status {
		case pipeline.StatusComplete:
		case pipeline.StatusStopped:
			r.Status = pipeline.StatusStopped
		default:
			failed += map[bool]int{true: 1}[o.Status == pipeline.StatusFailed]
			if r.Status == pipeline.StatusComplete {
				r.Status = pipeline.StatusPartial
			}
		}
	}
	if r.Status == pipeline.StatusPartial && failed == len(t.outcomes) {
		r.Status = pipeline.StatusFailed
	}
	return r
}

// ExitCode returns the process's exit code after the run. For a stopped run, it is the exit code of the first stopped
// source. For a failed run, it is the exit code of the sources if all sources have the same exit code, and otherwise 1.
func (t *Outcomes) ExitCode() int {
	r := t.Report()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch r.Status {
	case pipeline.StatusStopped:
		for _, o := range t.outcomes {
			if o.Status == pipeline.StatusStopped {
				return o.code
			}
		}
	case pipeline.StatusFailed:
		differs := func(o Outcome) bool { return o.code != t.outcomes[0].code }
		if len(t.outcomes) > 0 && !slices.ContainsFunc(t.outcomes, differs) {
			return t.outcomes[0].code
		}
	}
	return r.ExitCode()
}
