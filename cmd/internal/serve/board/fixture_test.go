package board_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/state"
)

type told struct {
	now       board.Now
	rate      []board.Budget
	webhooks  []board.Webhook
	pipelines []board.Pipeline
	streams   []board.Stream
	sources   []board.Source
	runs      []board.RunDetail
	rejects   []board.Reject
	changes   []board.Change
	audit     []board.Audit
	points    []state.Point // of a pipeline; each series has the same
	views     []board.View

	mu       sync.Mutex
	asked    []string
	recorded []board.Audit
	err      error
}

func (f *told) Now(context.Context) (board.Now, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, nil
}
func (f *told) Rate(context.Context) ([]board.Budget, error) { return f.rate, nil }
func (f *told) Webhooks(context.Context) ([]board.Webhook, error) {
	return slices.Clone(f.webhooks), nil
}
func (f *told) Pipelines(context.Context) ([]board.Pipeline, error) { return f.pipelines, nil }
func (f *told) Streams(_ context.Context, source string) (board.List[board.Stream], error) {
	kept := slices.DeleteFunc(slices.Clone(f.streams), func(s board.Stream) bool { return source != "" && s.Source != source })
	return board.List[board.Stream]{Items: kept, Total: len(kept)}, nil
}
func (f *told) Sources(_ context.Context, q board.Query) (board.Sources, error) {
	var kept []board.Source
	for _, s := range f.sources {
		if strings.Contains(s.Name, q.Source) && (q.Status == "" || q.Status == string(s.State)) {
			kept = append(kept, s)
		}
	}
	return board.Sources{List: cut(kept, q), Tally: board.StateCounts{All: len(f.sources), Failing: 1}}, nil
}
func (f *told) Run(_ context.Context, id, source string) (board.RunDetail, error) {
	i := slices.IndexFunc(f.runs, func(r board.RunDetail) bool { return r.ID == id && (source == "" || r.Source == source) })
	if i < 0 {
		return board.RunDetail{}, board.ErrUnknown
	}
	return f.runs[i], nil
}

func (f *told) Runs(_ context.Context, q board.Query) (board.List[board.Run], error) {
	var all []board.Run
	for _, r := range f.runs {
		if (q.Pipeline == "" || q.Pipeline == r.Pipeline) && (q.Source == "" || q.Source == r.Source) && (q.Status == "" || q.Status == string(r.Status)) {
			all = append(all, r.Run)
		}
	}
	return cut(all, q), nil
}

func (f *told) Rejects(_ context.Context, q board.Query) (board.List[board.Reject], error) {
	return cut(f.rejects, q), nil
}

func (f *told) Schema(_ context.Context, q board.Query) (board.List[board.Change], error) {
	return cut(f.changes, q), nil
}

func (f *told) Audit(_ context.Context, q board.Query) (board.List[board.Audit], error) {
	return cut(f.audit, q), nil
}

func (f *told) record(_ context.Context, a board.Audit) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recorded = append(f.recorded, a)
	return f.err
}

func (f *told) Points(_ context.Context, of []state.Series, since time.Time) (all []state.Point, _ error) {
	for _, s := range of {
		for _, p := range f.points {
			if !p.At.Before(since) && (p.Pipeline == "" || p.Series == s) {
				p.Series = s
				all = append(all, p)
			}
		}
	}
	return all, nil
}

func (f *told) Views(context.Context) ([]board.View, error) { return f.views, nil }

func cut[T any](all []T, q board.Query) board.List[T] {
	from := min(q.Offset, len(all))
	to := len(all)
	if q.Limit > 0 {
		to = min(to, from+q.Limit)
	}
	return board.List[T]{Items: all[from:to], Total: len(all)}
}

func (f *told) did(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
	return f.err
}

func (f *told) noted() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

var errBusy = fmt.Errorf("pipeline nightly: %w", board.ErrBusy)

type control struct{ *told }

func (c control) Start(_ context.Context, name string, streams ...string) error {
	return c.did("run %s %v", name, streams)
}
func (c control) Pause(_ context.Context, name string) error { return c.did("pause %s", name) }
func (c control) PauseSource(_ context.Context, name string) error {
	return c.did("pause source %s", name)
}
func (c control) ResumeSource(_ context.Context, name string) error {
	return c.did("resume source %s", name)
}
func (c control) Resume(_ context.Context, name string) error { return c.did("resume %s", name) }

// telling returns facts with n streams. It replaces each text of the facts by the result of rewrite().
func telling(n int, rewrite func(string) string) *told {
	at := time.Now().UTC().Truncate(time.Second)
	f := &told{}
	gauge := board.Gauge{Source: rewrite("main"), Name: rewrite("v2"), Limit: rewrite("100/s"), Allowed: 80, Used: 61.5, InFlight: 8, Sent: 184_220, Refused: 3,
		Waiting: rewrite("the source asked to wait: too many requests"), Until: at.Add(40 * time.Second)}
	f.now = board.Now{Since: at.Add(-76 * time.Hour), Budgets: []board.Gauge{gauge}}
	for i := range n {
		f.add(i, at, rewrite)
	}
	f.views = []board.View{{Name: rewrite("receivables_ageing"), Title: rewrite("Who owes what?"), Destination: rewrite("warehouse"), Tables: []string{rewrite("crm_leads")}}}
	for i := range 24 * 92 {
		end, width := at.Truncate(time.Hour).Add(-time.Duration(i)*time.Hour), time.Hour
		if i >= 24*8 && i%24 != 0 {
			continue
		}
		if i >= 24*8 {
			end, width = end.Truncate(24*time.Hour), 24*time.Hour
		}
		f.points = append(f.points, pointAt(end, width, int64(i)))
	}
	f.rate = []board.Budget{{Gauge: gauge}}
	for i := range 180 {
		used := 60 + 18*float64(i%20)/20
		f.rate[0].Points = append(f.rate[0].Points, board.Point{At: at.Add(time.Duration(i-180) * 20 * time.Second), Used: used, Allowed: 80, Refused: uint64(max(0, i%57-55))})
	}
	return f
}

// pointAt returns a point whose numbers differ from hour to hour.
func pointAt(at time.Time, width time.Duration, i int64) state.Point {
	p := state.Point{At: at, Width: width, Runs: 1, Took: time.Duration(40+i*7%31) * time.Second, Longest: time.Duration(40+i*7%31) * time.Second,
		WorkCounts: state.WorkCounts{Fetched: 9000 + i*131%800, Written: i * 37 % 211, Deleted: i * 5 % 9, Rejected: max(0, i*17%40-36), Requests: 100 + i*3%41, Allowed: 400}}
	if i%11 == 3 {
		p.Incomplete = 1
	} else {
		p.Complete = at.Add(10 * time.Minute)
	}
	return p
}

func nth(i int, names ...string) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s_%d", names[i%len(names)], i)
}

func (f *told) add(i int, at time.Time, say func(string) string) {
	statuses := []pipeline.Status{pipeline.StatusComplete, pipeline.StatusComplete, pipeline.StatusHeld, pipeline.StatusFailed, pipeline.StatusUnavailable, ""}
	verdicts := []pipeline.Verdict{pipeline.Proven, pipeline.Consistent, pipeline.Unproven, pipeline.Contradicted}
	states := []board.Tone{board.ToneFailing, board.ToneAttention, board.TonePaused, board.ToneOK, board.ToneNew}
	w := board.Source{Name: say(fmt.Sprintf("acme_%d", i)), State: states[min(i, 4)%5]}
	if w.State != board.ToneNew {
		w.Pipeline, w.Run, w.At, w.Complete, w.Failures, w.Rows, w.Error = say("nightly"), say("r00000000001"), at, at, i, 1209, say("surface v2: 401 unauthorized")
	}
	f.sources = append(f.sources, w)
	status, verdict := statuses[i%len(statuses)], verdicts[i%len(verdicts)]
	stream, name, run := say(nth(i, "crm.leads", "sales.invoices", "hr.employees", "support.tickets", "v2.contacts", "projects.tasks")), say(nth(i, "nightly", "hourly", "finance")), say(fmt.Sprintf("r%011d", i))
	counts := pipeline.Counts{Fetched: 1210, Written: 12, Unchanged: 1195, Deduplicated: 2, Rejected: 1, Deleted: 3}
	began := at.Add(-time.Duration(i) * time.Hour)
	s := board.Stream{Pipeline: name, Name: stream, Table: say("crm_leads"), Destination: say("warehouse"), Status: status, Verdict: verdict,
		Why: say("total 1,210 = distinct keys"), Synced: began, Rows: 1209, Run: run, Counts: counts}
	f.audit = append(f.audit, board.Audit{At: at, Who: say("ann"), What: say("pause"), Object: say("pipeline nightly"), From: say("192.0.2.1"), Outcome: say("done"), Refused: i%2 == 1})
	source := ""
	if i%2 == 1 {
		source = say(fmt.Sprintf("acme_%d", i))
	}
	s.Source = source
	if status == pipeline.StatusFailed {
		s.Error = say("get /v2/contacts page 17: 500 internal server error")
	}
	for b := range 24 {
		s.Recent = append(s.Recent, board.PassSummary{Run: run, At: at.Add(-time.Duration(b) * time.Hour), Verdict: verdicts[b%2], Fetched: 1200, Changed: int64(b * b % 97)})
	}
	f.streams = append(f.streams, s)
	d := board.RunDetail{Run: board.Run{ID: run, Pipeline: name, Destinations: []string{say("warehouse")}, Status: pipeline.StatusPartial, Started: began,
		Ended: began.Add(95 * time.Second), Counts: counts, Requests: 77, Streams: 3, Open: 1, Error: say("surface v2: 401 unauthorized")}}
	witnesses, _ := json.Marshal(map[string]any{say("rule"): say("last page"), "distinct": 1209, "reread": true, "others": map[string]any{"examples": []string{say("17")}}})
	d.Passes = []board.Pass{{Source: source, Stream: stream, Destination: say("warehouse"), Status: pipeline.StatusFailed, Verdict: verdict, Why: say("a page was missing"), Error: say("commit crm.leads: disk full"), Hint: say("free some space"),
		Counts: counts, Pages: 13, Requests: 14, Started: began.Add(time.Second), Ended: began.Add(40 * time.Second), Witnesses: witnesses}}
	reject := board.Reject{Run: run, Pipeline: name, Source: source, Stream: stream, Destination: say("warehouse"), At: at, Ordinal: 7, Key: say("4711"), Pointer: say("/amount"), Wanted: say("int64"), Raw: say(`"12,5"`), Reason: say("no number")}
	change := board.Change{At: at, Run: run, Destination: say("warehouse"), Table: say("crm_leads"), Column: say("amount"), Source: say("amount"), Action: say("add column"), From: say("int64"), To: say("text"), Reason: say("a value came that is no number")}
	d.Rejects, d.Changes = []board.Reject{reject}, []board.Change{change}
	group := board.Group{Pipeline: name, Source: source, Stream: stream, Destination: say("warehouse"), Pointer: say("/amount"), Wanted: say("int64"), Reason: say("no number"), Count: 1, Example: say(`"12,5"`)}
	d.Groups = []board.Group{group}
	d.Log = []board.Line{{At: began, Level: "info", Text: say("run began")}, {At: began.Add(time.Minute), Level: "error", Source: source, Stream: stream, Text: say("panic: index out of range")}}
	f.runs, f.rejects, f.changes = append(f.runs, d), append(f.rejects, reject), append(f.changes, change)
	p := board.Pipeline{Name: name, From: []string{say("main")}, To: []string{say("warehouse")}, Schedule: say("0 2 * * *"), Zone: "Europe/Berlin", Paused: i%3 == 2,
		Next: []time.Time{at.Add(3 * time.Hour), at.Add(27 * time.Hour)}}
	p.Slots = []board.Slot{{Due: began, State: "ran", Run: run, Started: began, Ended: began.Add(time.Minute), Status: status},
		{Due: began.Add(-time.Hour), State: "skipped", Why: say("the run before was still in progress")}}
	f.pipelines = append(f.pipelines, p)
	f.now.Running = append(f.now.Running, board.Running{Run: run, Pipeline: name, Trigger: say("schedule"), Started: began, Streams: 12, Ended: 4, Pages: 80, Requests: 84, Records: 7000,
		Reading: []board.Reading{{Stream: stream, Since: began, Records: 400, Total: 1210}, {Stream: stream, Since: began, Records: 90}}})
	event := board.Event{Ordinal: int64(i + 1), ID: say("evt_1"), Type: say("contact.updated"), Received: at, State: say("dead"), Why: say("after 3 tries: 500"), Body: say(`{"id":1}`)}
	hooked := fmt.Sprintf("main_%d", i)
	f.webhooks = append(f.webhooks, board.Webhook{Source: say(hooked), Path: say("/webhooks/" + hooked), Scheme: say("stripe"), Last: at, Received: 9000, Refused: []board.Count{{Name: say("signature"), N: 2}},
		PerMin: []int64{0, 4, 9, 2, 0, 1, 7, 30, 12, 11}, Waiting: 12, Lag: 3.5, Bytes: 4 << 20, Quota: 1 << 30, DeadSum: 1,
		Coverage: []board.Coverage{{Stream: stream, Announced: 97, Missed: 3}}, Dead: []board.Event{event}, Recent: []board.Event{event}})
}
