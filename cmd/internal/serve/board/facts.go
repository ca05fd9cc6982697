package board

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// Facts returns the data that the board shows. Many goroutines call its methods often, so an implementation must
// cache data that takes more than a few milliseconds to get. Texts may contain anything that a source or the
// sender of a webhook has written, but no secrets. // Invariant 5
type Facts interface {
	Live
	Health
	History
	Past
}

// Live returns the current activity of the daemon.
type Live interface {
	Now(context.Context) (Now, error)
	Rate(context.Context) ([]Budget, error)      // rate limit of each credential
	Webhooks(context.Context) ([]Webhook, error) // state of each source with webhooks
}

// Health returns the current state of pipelines, streams and sources.
type Health interface {
	Pipelines(context.Context) ([]Pipeline, error)
	Streams(ctx context.Context, source string) (List[Stream], error) // one item per stream and destination; source "" means all sources
	Sources(context.Context, Query) (Sources, error)
}

// History returns past runs, rejects, changes and actions, newest first.
type History interface {
	Runs(context.Context, Query) (List[Run], error)
	Run(ctx context.Context, id, source string) (RunDetail, error) // source "" means all sources; the error is ErrUnknown if there is no such run
	Rejects(context.Context, Query) (List[Reject], error)
	Schema(context.Context, Query) (List[Change], error)
	Audit(context.Context, Query) (List[Audit], error)
}

// Past returns what runs did over time, and the views that read their tables.
type Past interface {
	// Points returns the points of the series since the given time, sorted by series: see [state.History].
	Points(ctx context.Context, of []state.Series, since time.Time) ([]state.Point, error)
	Views(context.Context) ([]View, error)
}

// View is a view that penstock has created in a destination.
type View struct {
	Name, Title, Destination string
	Tables                   []string // tables that it reads
}

// Control performs the actions of visitors. Each method returns as soon as the action is accepted, even if it is
// still in progress. Errors may wrap ErrUnknown and ErrBusy.
type Control interface {
	// Start starts a run of these streams of a pipeline, or of all its streams if none is named.
	Start(ctx context.Context, name string, streams ...string) error
	Pause(ctx context.Context, name string) error
	Resume(ctx context.Context, name string) error
	// PauseSource makes runs skip a source until ResumeSource is called.
	PauseSource(ctx context.Context, name string) error
	ResumeSource(ctx context.Context, name string) error
}

// Errors that Facts and Control return.
var (
	ErrUnknown = errors.New("not found") // a pipeline, stream, source or run
	ErrBusy    = errors.New("already running")
)

// Query filters a list and selects a page of it. Empty fields do not filter.
type Query struct {
	Pipeline, Source, Stream, Table, Status string

	All    bool // include resolved rejects
	Offset int
	Limit  int
}

// List is a page of a list.
type List[T any] struct {
	Items []T
	Total int    // number of items in the whole list
	Hint  string // says for a person what the list omits; usually ""
}

// Now is the current activity of the daemon.
type Now struct {
	Since   time.Time // when the daemon started
	Running []Running
	Budgets []Gauge
	Notices []string // notices about the daemon's configuration, for a person
}

// Running is a run in progress.
type Running struct {
	Run      string    `json:"run"`
	Pipeline string    `json:"pipeline"`
	Trigger  string    `json:"trigger" jsonschema:"description=Why the run began: for example schedule\\, manual or retry."`
	Started  time.Time `json:"started_at"`
	Streams  int       `json:"streams" jsonschema:"description=Number of streams that the run reads."`
	Ended    int       `json:"ended" jsonschema:"description=How many of these streams have ended."`
	Pages    int       `json:"pages"`
	Requests int       `json:"requests"`
	Records  int64     `json:"records"`
	Reading  []Reading `json:"reading" jsonschema:"description=The streams in progress\\, oldest first."`
}

// Reading is a stream in progress.
type Reading struct {
	Source  string    `json:"source,omitempty" jsonschema:"description=Absent if the run reads only one source."`
	Stream  string    `json:"stream"`
	Since   time.Time `json:"since"`
	Records int64     `json:"records"`
	Total   int64     `json:"total,omitempty" jsonschema:"description=Length of the list\\, if the API reports it."`
}

// Gauge is the rate limit of a credential and its current use.
type Gauge struct {
	Source   string    `json:"source"`
	Name     string    `json:"name" jsonschema:"description=The surface\\, or the name of a stream that has its own origin\\, credential or headers."`
	Limit    string    `json:"limit,omitempty" jsonschema:"description=Configured or learned limit\\, for example 100/s."`
	Allowed  float64   `json:"allowed" jsonschema:"description=Requests per second allowed at present."`
	Used     float64   `json:"used" jsonschema:"description=Requests per second in the last seconds."`
	InFlight int       `json:"in_flight"`
	Sent     uint64    `json:"sent" jsonschema:"description=Requests so far\\, by all processes that share the rate limit."`
	Refused  uint64    `json:"refused" jsonschema:"description=How many of them got status 429."`
	Waiting  string    `json:"waiting,omitempty" jsonschema:"description=Why the next request must wait."`
	Until    time.Time `json:"until,omitzero" jsonschema:"description=When the next request may be sent."`
}

// Budget is a Gauge and its history, oldest point first.
type Budget struct {
	Gauge
	Points []Point `json:"points"`
}

// Point is a rate at one time, in requests per second.
type Point struct {
	At      time.Time `json:"at"`
	Used    float64   `json:"used"`
	Allowed float64   `json:"allowed"`
	Refused uint64    `json:"refused,omitempty" jsonschema:"description=Responses with status 429 since the previous point."`
}

// Pipeline is one pipeline of the configuration.
type Pipeline struct {
	Name     string      `json:"name"`
	From     []string    `json:"from"`
	To       []string    `json:"to"`
	Schedule string      `json:"schedule,omitempty" jsonschema:"description=As configured; absent if the pipeline only runs manually."`
	Zone     string      `json:"zone,omitempty"`
	Paused   bool        `json:"paused"`
	Running  string      `json:"running,omitempty" jsonschema:"description=The run in progress."`
	Next     []time.Time `json:"next" jsonschema:"description=The next slots\\, even if the schedule is paused."`
	Slots    []Slot      `json:"slots" jsonschema:"description=The last slots\\, newest first."`
}

// Slot is one due time of a schedule and its outcome.
type Slot struct {
	Due     time.Time       `json:"due"`
	State   string          `json:"state" jsonschema:"enum=ran,enum=running,enum=skipped,enum=missed,description=skipped: paused\\, or covered by another run. missed: the daemon was not running\\, or the previous run had not ended."`
	Why     string          `json:"why,omitempty"`
	Run     string          `json:"run,omitempty"`
	Started time.Time       `json:"started_at,omitzero"`
	Ended   time.Time       `json:"ended_at,omitzero"`
	Status  pipeline.Status `json:"status,omitempty" jsonschema:"description=Status of the run."`
}

// Stream is the state of a stream in one destination.
type Stream struct {
	Pipeline    string           `json:"pipeline"`
	Source      string           `json:"source,omitempty" jsonschema:"description=Absent if the pipeline reads only one source."`
	Name        string           `json:"stream"`
	Table       string           `json:"table"`
	Destination string           `json:"destination"`
	Status      pipeline.Status  `json:"status,omitempty" jsonschema:"description=Outcome of the last run that read the stream; absent if no run has read it."`
	Verdict     pipeline.Verdict `json:"verdict,omitempty" jsonschema:"description=Verdict of its last whole pass."`
	Why         string           `json:"why,omitempty" jsonschema:"description=The verdict's reasons."`
	Error       string           `json:"error,omitempty" jsonschema:"description=Why the stream is not complete."`
	Synced      time.Time        `json:"synced_at,omitzero" jsonschema:"description=When the stream was last read completely."`
	Rows        int64            `json:"rows" jsonschema:"description=Rows found by the last pass."`
	Run         string           `json:"run,omitempty" jsonschema:"description=The last run that read the stream\\, completely or not."`
	Counts      pipeline.Counts  `json:"counts" jsonschema:"description=Counts of the last pass."`
	Recent      []PassSummary    `json:"recent" jsonschema:"description=The last passes\\, oldest first."`
	Checks      []Check          `json:"checks,omitempty" jsonschema:"description=Newest result of each check."`
}

// Check is the result of a check of the data in one run.
type Check struct {
	Run         string    `json:"run"`
	Pipeline    string    `json:"pipeline"`
	Source      string    `json:"source,omitempty" jsonschema:"description=Absent if the run reads only one source."`
	Stream      string    `json:"stream"`
	Destination string    `json:"destination"`
	Name        string    `json:"check"`
	OnFail      string    `json:"on_fail" jsonschema:"enum=warn,enum=hold"`
	Result      string    `json:"result" jsonschema:"enum=ok,enum=failed,enum=held,enum=error"`
	Failing     int64     `json:"failing" jsonschema:"description=Number of rows that failed."`
	Text        string    `json:"text,omitempty" jsonschema:"description=What was found\\, if the check has not passed."`
	At          time.Time `json:"at"`
}

// PassSummary is one pass over a stream.
type PassSummary struct {
	Run     string           `json:"run"`
	At      time.Time        `json:"at"`
	Verdict pipeline.Verdict `json:"verdict,omitempty"`
	Fetched int64            `json:"fetched"`
	Changed int64            `json:"changed" jsonschema:"description=Rows written or deleted."`
}

// Run is one run in one destination.
type Run struct {
	ID           string          `json:"run"`
	Pipeline     string          `json:"pipeline"`
	Source       string          `json:"source,omitempty" jsonschema:"description=Source of this entry\\, if the pipeline reads several sources."`
	Sources      int             `json:"sources,omitempty" jsonschema:"description=How many sources are in the sums\\, if the pipeline reads several sources."`
	Destinations []string        `json:"destinations" jsonschema:"description=Destinations that have the run."`
	Status       pipeline.Status `json:"status"`
	Started      time.Time       `json:"started_at"`
	Ended        time.Time       `json:"ended_at,omitzero"`
	Counts       pipeline.Counts `json:"counts"`
	Requests     int             `json:"requests"`
	Streams      int             `json:"streams"`
	Open         int             `json:"open" jsonschema:"description=How many streams of the run are not complete."`
	Error        string          `json:"error,omitempty"`
}

// RunDetail is a run with its passes, rejects, changes and log.
type RunDetail struct {
	Run
	Zone    string   `json:"zone,omitempty" jsonschema:"description=Time zone of the pipeline's schedule."`
	Passes  []Pass   `json:"passes" jsonschema:"description=If there are very many\\, only the most severe."`
	Total   int      `json:"passes_total" jsonschema:"description=Number of passes."`
	Rejects []Reject `json:"rejects" jsonschema:"description=The first rejects."`
	Groups  []Group  `json:"reject_groups" jsonschema:"description=Rejects of the run\\, counted by stream\\, pointer and reason. Only the newest 5000 rejects of each destination are counted."`
	Changes []Change `json:"changes" jsonschema:"description=Changes of tables."`
	Checks  []Check  `json:"checks" jsonschema:"description=Results of the checks of the data."`
	Log     []Line   `json:"log"`

	Commands []Command `json:"commands" jsonschema:"description=Commands that ran after the run."`
}

// Command is the result of a command that ran after a run.
type Command struct {
	Command  string    `json:"command" jsonschema:"description=The program and its arguments."`
	Result   string    `json:"result" jsonschema:"enum=ok,enum=failed,enum=timeout,enum=stopped"`
	ExitCode int       `json:"exit_code"`
	Started  time.Time `json:"started_at"`
	Ended    time.Time `json:"ended_at"`
	Error    string    `json:"error,omitempty"`
	Output   string    `json:"output,omitempty" jsonschema:"description=The end of what the command printed."`
}

// Pass is one reading of a stream into one destination. Its counts add up:
// fetched = written + unchanged + deduplicated + rejected.
type Pass struct {
	Source      string           `json:"source,omitempty" jsonschema:"description=Absent if the run reads only one source."`
	Stream      string           `json:"stream"`
	Destination string           `json:"destination"`
	Status      pipeline.Status  `json:"status"`
	Verdict     pipeline.Verdict `json:"verdict,omitempty"`
	Why         string           `json:"why,omitempty"`
	Error       string           `json:"error,omitempty"`
	Hint        string           `json:"hint,omitempty" jsonschema:"description=What to do about the error\\, as the command line prints it."`
	Counts      pipeline.Counts  `json:"counts"`
	Pages       int              `json:"pages"`
	Requests    int              `json:"requests"`
	Started     time.Time        `json:"started_at,omitzero" jsonschema:"description=Absent if unknown."`
	Ended       time.Time        `json:"ended_at,omitzero"`
	Witnesses   json.RawMessage  `json:"witnesses,omitempty" jsonschema:"type=object,description=Evidence for the verdict."`
}

// Line is a line of a run's log.
type Line struct {
	At     time.Time `json:"at"`
	Level  string    `json:"level" jsonschema:"enum=info,enum=warn,enum=error"`
	Source string    `json:"source,omitempty" jsonschema:"description=Absent if the run reads only one source."`
	Stream string    `json:"stream,omitempty"`
	Text   string    `json:"text"`
}

// Reject is a record or a value that could not be stored.
type Reject struct {
	Run         string    `json:"run"`
	Pipeline    string    `json:"pipeline"`
	Source      string    `json:"source,omitempty" jsonschema:"description=Absent if the pipeline reads only one source."`
	Stream      string    `json:"stream"`
	Destination string    `json:"destination"`
	At          time.Time `json:"at,omitzero"`
	Ordinal     int64     `json:"ordinal"`
	Key         string    `json:"key,omitempty"`
	Pointer     string    `json:"pointer" jsonschema:"description=JSON pointer into the record; empty for the whole record."`
	Wanted      string    `json:"wanted,omitempty" jsonschema:"description=The type that the column requires."`
	Raw         string    `json:"raw,omitempty" jsonschema:"description=Only the beginning\\, if it is long."`
	Reason      string    `json:"reason"`
	Record      bool      `json:"record" jsonschema:"description=The whole record was rejected\\, not only the value."`
	Resolved    time.Time `json:"resolved_at,omitzero"`
}

// Group counts rejects that have the same stream, pointer and reason.
type Group struct {
	Pipeline    string `json:"pipeline"`
	Source      string `json:"source,omitempty" jsonschema:"description=Absent if the pipeline reads only one source."`
	Stream      string `json:"stream"`
	Destination string `json:"destination"`
	Pointer     string `json:"pointer" jsonschema:"description=JSON pointer into the record; empty for the whole record."`
	Wanted      string `json:"wanted,omitempty" jsonschema:"description=The type that the column requires."`
	Reason      string `json:"reason"`
	Count       int    `json:"count"`
	Example     string `json:"example,omitempty" jsonschema:"description=The value of the newest reject; only the beginning\\, if it is long."`
}

// Change is a change that was made to a table.
type Change struct {
	At          time.Time `json:"at"`
	Run         string    `json:"run,omitempty"`
	Destination string    `json:"destination"`
	Table       string    `json:"table"`
	Column      string    `json:"column,omitempty"`
	Source      string    `json:"source,omitempty" jsonschema:"description=Field of the record that the column stores."`
	Action      string    `json:"action"`
	From        string    `json:"from_type,omitempty"`
	To          string    `json:"to_type,omitempty"`
	Reason      string    `json:"reason,omitempty"`
}

// Webhook is the state of one source's deliveries.
type Webhook struct {
	Source   string     `json:"source"`
	Path     string     `json:"path" jsonschema:"description=Path that receives deliveries."`
	Scheme   string     `json:"scheme" jsonschema:"description=Signature scheme\\, or learn."`
	Last     time.Time  `json:"last_at,omitzero" jsonschema:"description=Time of the last delivery."`
	Received int64      `json:"received" jsonschema:"description=Verified deliveries since the daemon started."`
	Refused  []Count    `json:"refused" jsonschema:"description=Refused deliveries by reason."`
	PerMin   []int64    `json:"per_minute" jsonschema:"description=Verified deliveries per minute\\, oldest first."`
	Waiting  int64      `json:"waiting" jsonschema:"description=Events in the inbox that are not applied yet."`
	Lag      float64    `json:"lag_seconds" jsonschema:"description=Age of the oldest waiting event."`
	Bytes    int64      `json:"inbox_bytes"`
	Captured int        `json:"captured,omitempty" jsonschema:"description=Unverified deliveries that are kept to learn the scheme."`
	Room     int        `json:"captures_most,omitempty" jsonschema:"description=Maximum number of unverified deliveries that are kept."`
	Quota    int64      `json:"inbox_quota,omitempty" jsonschema:"description=Size in bytes above which deliveries are refused with 503."`
	Coverage []Coverage `json:"coverage"`
	Dead     []Event    `json:"dead_letters" jsonschema:"description=The newest events that could not be applied."`
	DeadSum  int64      `json:"dead_letter_count"`
	Recent   []Event    `json:"recent" jsonschema:"description=The newest events."`
}

// Count is a named counter.
type Count struct {
	Name string `json:"name"`
	N    int64  `json:"count"`
}

// Coverage compares events with regular runs. Announced counts the changes of a stream that events have announced.
// Missed counts the changes that only a run has found.
type Coverage struct {
	Stream    string `json:"stream"`
	Announced int64  `json:"announced"`
	Missed    int64  `json:"missed"`
}

// Event is a delivery in the inbox.
type Event struct {
	Ordinal  int64     `json:"ordinal"`
	ID       string    `json:"id,omitempty"`
	Type     string    `json:"type,omitempty"`
	Received time.Time `json:"received_at"`
	State    string    `json:"state" jsonschema:"description=kept\\, conflict or dead."`
	Why      string    `json:"why,omitempty"`
	Body     string    `json:"body,omitempty" jsonschema:"description=Only the beginning\\, if it is long."`
}
