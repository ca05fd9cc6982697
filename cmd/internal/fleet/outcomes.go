package fleet

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Outcome is what became of one source in a run over many.
type Outcome struct {
	Source   string          `json:"source"`
	Status   pipeline.Status `json:"status"`
	Streams  int             `json:"streams"`           // that were read
	Short    int             `json:"short,omitempty"`   // of these, those that did not reach their goal
	Requests int             `json:"requests"`          // that the source was asked
	Written  int64           `json:"written"`           // rows, over all destinations
	Deleted  int64           `json:"deleted,omitempty"` // ditto
	Seconds  float64         `json:"seconds"`
	Error    string          `json:"error,omitempty"` // why it is not complete

	code int
}

// Complete reports whether every stream of the source reached its goal.
func (o Outcome) Complete() bool { return o.Status == pipeline.StatusComplete }

// Outcomes gathers what becomes of the sources of one run. Its size goes by the
// number of sources and that of streams, never by their product. It may be used
// from any number of goroutines. // Invariant 6
type Outcomes struct {
	run, pipeline string
	started       time.Time

	mu       sync.Mutex
	outcomes []Outcome
	streams  []pipeline.StreamReport // summed up over the sources, by stream and destination
	at       map[[2]string]int
	requests int
}

// NewTally begins to gather what becomes of a pipeline's sources in a run.
func NewTally(run, name string) *Outcomes {
	return &Outcomes{run: run, pipeline: name, started: time.Now(), at: map[[2]string]int{}}
}

// Run is the run's id.
func (t *Outcomes) Run() string { return t.run }

// Add takes note of what became of a source: the report of its run, or the error
// that kept it from one.
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
	if r.Run == "" { // it did not come to a run
		o.Status, o.Seconds, o.code = pipeline.StatusFailed, 0, 1
	}
	if err != nil {
		o.Error = err.Error()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes = append(t.outcomes, o)
	t.requests += r.Requests
	for _, s := range r.Streams {
		t.add(s)
	}
	return o
}

// add sums up a stream of one source with those of the others. t.mu is held.
func (t *Outcomes) add(s pipeline.StreamReport) {
	s.Notices, s.Webhooks = nil, nil
	key := [2]string{s.Stream, s.Destination}
	i, known := t.at[key]
	if !known {
		t.at[key] = len(t.streams)
		t.streams = append(t.streams, s)
		return
	}
	sum := &t.streams[i]
	sum.Counts = sum.Counts.Add(s.Counts)
	sum.Missing += s.Missing
	sum.Passes += s.Passes
	sum.Pages += s.Pages
	sum.Requests += s.Requests
	sum.Bytes += s.Bytes
	sum.Duration = max(sum.Duration, s.Duration)
	if sum.Status == pipeline.StatusComplete && s.Status != pipeline.StatusComplete {
		sum.Status, sum.Verdict, sum.Why, sum.Err, sum.NotBefore = s.Status, s.Verdict, s.Why, s.Err, s.NotBefore
	}
}

// Outcomes are what became of the sources so far, the worst first.
func (t *Outcomes) Outcomes() []Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Clone(t.outcomes)
	slices.SortFunc(all, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(rank(a.Status), rank(b.Status)), cmp.Compare(a.Source, b.Source))
	})
	return all
}

// rank orders statuses from the worst to the best.
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

// Report is the run over all of its sources as one: complete where each was,
// failed where none has come to anything, else partial. // Invariant 14
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

// ExitCode is the process's exit code after the run. Of one that was stopped it
// is that of the source which was; of one that failed, that of its sources where they
// have one in common.
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
