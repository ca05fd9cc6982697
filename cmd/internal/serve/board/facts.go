package board

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Facts is what the board shows. Its methods are called from many goroutines, and
// often: what costs more than a few milliseconds is kept at hand. Texts may hold
// anything that a source or a sender has put there, but no secrets. // Invariant 5
type Facts interface {
	Live
	Health
	History
}

// Live is what happens at this moment.
type Live interface {
	Now(context.Context) (Now, error)
	Rate(context.Context) ([]Budget, error)      // of each credential
	Webhooks(context.Context) ([]Webhook, error) // of each source that sends them
}

// Health is how things stand.
type Health interface {
	Pipelines(context.Context) ([]Pipeline, error)
	Streams(ctx context.Context, source string) (List[Stream], error) // in each of their destinations; of one source, or of all ("")
	Sources(context.Context, Query) (Sources, error)
}

// History is what was, the newest first.
type History interface {
	Runs(context.Context, Query) (List[Run], error)
	Run(ctx context.Context, id, source string) (RunDetail, error) // over one source, or all (""); or ErrUnknown
	Rejects(context.Context, Query) (List[Reject], error)
	Schema(context.Context, Query) (List[Change], error)
	Audit(context.Context, Query) (List[Audit], error)
}

// Control is what a visitor may have the daemon do. Each returns once that is
// noted, not done; the error is ErrUnknown or ErrBusy, or what went wrong.
type Control interface {
	// Start has the pipeline run now, of its streams those that are named, or all.
	Start(ctx context.Context, name string, streams ...string) error
	Pause(ctx context.Context, name string) error
	Resume(ctx context.Context, name string) error
	// PauseSource has runs leave a source out until ResumeSource.
	PauseSource(ctx context.Context, name string) error
	ResumeSource(ctx context.Context, name string) error
}

// What a visitor asked for and cannot have; Facts and Control return them.
var (
	ErrUnknown = errors.New("there is no such thing") // a pipeline, stream or run
	ErrBusy    = errors.New("it is running already")
)

// Query narrows a list, and says which part of it is wanted. What is empty
// narrows nothing.
type Query struct {
	Pipeline, Source, Stream, Table, Status string

	All    bool // rejects too that were put in their place since
	Offset int
	Limit  int
}

// List is a part of a list.
type List[T any] struct {
	Items []T
	Total int    // of the whole list
	Hint  string // what is not in it, for a person; usually nothing
}

// Now is what the daemon is about.
type Now struct {
	Since   time.Time // that it runs
	Running []Running
	Budgets []Gauge
	Notices []string // about its configuration, for a person
}

// Running is a run under way.
type Running struct {
	Run      string    `json:"run"`
	Pipeline string    `json:"pipeline"`
	Trigger  string    `json:"trigger" jsonschema:"description=What began it: schedule\\, manual\\, retry or the like."`
	Started  time.Time `json:"started_at"`
	Streams  int       `json:"streams" jsonschema:"description=That the run reads."`
	Ended    int       `json:"ended" jsonschema:"description=Of these\\, those it has come to the end of."`
	Pages    int       `json:"pages"`
	Requests int       `json:"requests"`
	Records  int64     `json:"records"`
	Reading  []Reading `json:"reading" jsonschema:"description=The streams under way\\, the oldest first."`
}

// Reading is a stream under way.
type Reading struct {
	Source  string    `json:"source,omitempty" jsonschema:"description=Of a run over several."`
	Stream  string    `json:"stream"`
	Since   time.Time `json:"since"`
	Records int64     `json:"records"`
	Total   int64     `json:"total,omitempty" jsonschema:"description=Records the list says it has\\, where it says so."`
}

// Gauge is how much of what a credential may ask is being asked.
type Gauge struct {
	Source   string    `json:"source"`
	Name     string    `json:"name" jsonschema:"description=The surface\\, or the stream with an origin of its own."`
	Limit    string    `json:"limit,omitempty" jsonschema:"description=What was stated or learned\\, such as 100/s."`
	Allowed  float64   `json:"allowed" jsonschema:"description=Requests a second that it lets go at present."`
	Used     float64   `json:"used" jsonschema:"description=Requests a second of the last seconds."`
	InFlight int       `json:"in_flight"`
	Sent     uint64    `json:"sent" jsonschema:"description=Since the daemon began."`
	Refused  uint64    `json:"refused" jsonschema:"description=Of these\\, those answered 429."`
	Waiting  string    `json:"waiting,omitempty" jsonschema:"description=Why the next request has to wait."`
	Until    time.Time `json:"until,omitzero" jsonschema:"description=When it may go."`
}

// Budget is a Gauge and how it was, the oldest point first.
type Budget struct {
	Gauge
	Points []Point `json:"points"`
}

// Point is a rate at a moment, in requests a second.
type Point struct {
	At      time.Time `json:"at"`
	Used    float64   `json:"used"`
	Allowed float64   `json:"allowed"`
	Refused uint64    `json:"refused,omitempty" jsonschema:"description=Answers 429 since the point before."`
}

// Pipeline is one pipeline of the configuration.
type Pipeline struct {
	Name     string      `json:"name"`
	From     []string    `json:"from"`
	To       []string    `json:"to"`
	Schedule string      `json:"schedule,omitempty" jsonschema:"description=As the configuration says it; absent where it runs by hand alone."`
	Zone     string      `json:"zone,omitempty"`
	Paused   bool        `json:"paused"`
	Running  string      `json:"running,omitempty" jsonschema:"description=The run under way."`
	Next     []time.Time `json:"next" jsonschema:"description=The next slots\\, if it were not paused."`
	Slots    []Slot      `json:"slots" jsonschema:"description=The last slots\\, the newest first."`
}

// Slot is a time at which a schedule was due, and what became of it.
type Slot struct {
	Due     time.Time       `json:"due"`
	State   string          `json:"state" jsonschema:"enum=ran,enum=running,enum=skipped,enum=missed,description=skipped: paused\\, or another run does for it. missed: nobody was there\\, or the run before had not ended."`
	Why     string          `json:"why,omitempty"`
	Run     string          `json:"run,omitempty"`
	Started time.Time       `json:"started_at,omitzero"`
	Ended   time.Time       `json:"ended_at,omitzero"`
	Status  pipeline.Status `json:"status,omitempty" jsonschema:"description=Of the run."`
}

// Stream is how a stream stands in one destination.
type Stream struct {
	Pipeline    string           `json:"pipeline"`
	Source      string           `json:"source,omitempty" jsonschema:"description=Where the pipeline reads several."`
	Name        string           `json:"stream"`
	Table       string           `json:"table"`
	Destination string           `json:"destination"`
	Status      pipeline.Status  `json:"status,omitempty" jsonschema:"description=How the last run that tried it left it; absent where none has."`
	Verdict     pipeline.Verdict `json:"verdict,omitempty" jsonschema:"description=What its last whole pass could prove about its completeness."`
	Why         string           `json:"why,omitempty" jsonschema:"description=The verdict's reasons."`
	Error       string           `json:"error,omitempty" jsonschema:"description=What keeps it from its goal."`
	Synced      time.Time        `json:"synced_at,omitzero" jsonschema:"description=When it was last read to its end."`
	Rows        int64            `json:"rows" jsonschema:"description=That the last pass found."`
	Run         string           `json:"run,omitempty" jsonschema:"description=The last run that tried it."`
	Counts      pipeline.Counts  `json:"counts" jsonschema:"description=Of the last pass."`
	Recent      []Beat           `json:"recent" jsonschema:"description=The last passes\\, the oldest first."`
}

// Beat is one pass over a stream.
type Beat struct {
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
	Source       string          `json:"source,omitempty" jsonschema:"description=That it is told of\\, where the pipeline reads several and it is one alone."`
	Sources      int             `json:"sources,omitempty" jsonschema:"description=How many it is summed up from\\, where the pipeline reads several."`
	Destinations []string        `json:"destinations" jsonschema:"description=In which it is known."`
	Status       pipeline.Status `json:"status"`
	Started      time.Time       `json:"started_at"`
	Ended        time.Time       `json:"ended_at,omitzero"`
	Counts       pipeline.Counts `json:"counts"`
	Requests     int             `json:"requests"`
	Streams      int             `json:"streams"`
	Open         int             `json:"open" jsonschema:"description=Of its streams\\, those that did not reach their goal."`
	Error        string          `json:"error,omitempty"`
}

// RunDetail is a run and all that is known of it.
type RunDetail struct {
	Run
	Passes  []Pass   `json:"passes" jsonschema:"description=The gravest\\, where there are very many."`
	Total   int      `json:"passes_total" jsonschema:"description=How many passes there are."`
	Rejects []Reject `json:"rejects" jsonschema:"description=The first of them."`
	Changes []Change `json:"changes" jsonschema:"description=Of tables."`
	Log     []Line   `json:"log"`
}

// Pass is one reading of a stream into one destination. Its counts add up:
// fetched = written + unchanged + deduplicated + rejected.
type Pass struct {
	Source      string           `json:"source,omitempty" jsonschema:"description=Where the run is over several."`
	Stream      string           `json:"stream"`
	Destination string           `json:"destination"`
	Status      pipeline.Status  `json:"status"`
	Verdict     pipeline.Verdict `json:"verdict,omitempty"`
	Why         string           `json:"why,omitempty"`
	Error       string           `json:"error,omitempty"`
	Counts      pipeline.Counts  `json:"counts"`
	Pages       int              `json:"pages"`
	Requests    int              `json:"requests"`
	Started     time.Time        `json:"started_at,omitzero" jsonschema:"description=Absent where it is not known."`
	Ended       time.Time        `json:"ended_at,omitzero"`
	Witnesses   json.RawMessage  `json:"witnesses,omitempty" jsonschema:"type=object,description=What the verdict rests on."`
}

// Line is a line of a run's log.
type Line struct {
	At     time.Time `json:"at"`
	Level  string    `json:"level" jsonschema:"enum=info,enum=warn,enum=error"`
	Source string    `json:"source,omitempty" jsonschema:"description=Where the run is over several."`
	Stream string    `json:"stream,omitempty"`
	Text   string    `json:"text"`
}

// Reject is a record, or a value of one, that no column could hold.
type Reject struct {
	Run         string    `json:"run"`
	Pipeline    string    `json:"pipeline"`
	Source      string    `json:"source,omitempty" jsonschema:"description=Where the pipeline reads several."`
	Stream      string    `json:"stream"`
	Destination string    `json:"destination"`
	At          time.Time `json:"at,omitzero"`
	Ordinal     int64     `json:"ordinal"`
	Key         string    `json:"key,omitempty"`
	Pointer     string    `json:"pointer" jsonschema:"description=A JSON pointer into the record; empty for all of it."`
	Wanted      string    `json:"wanted,omitempty" jsonschema:"description=The type it would have to have."`
	Raw         string    `json:"raw,omitempty" jsonschema:"description=Its beginning\\, where it is long."`
	Reason      string    `json:"reason"`
	Record      bool      `json:"record" jsonschema:"description=The whole record is left out\\, not the value alone."`
	Resolved    time.Time `json:"resolved_at,omitzero"`
}

// Change is a change that was made to a table.
type Change struct {
	At          time.Time `json:"at"`
	Run         string    `json:"run,omitempty"`
	Destination string    `json:"destination"`
	Table       string    `json:"table"`
	Column      string    `json:"column,omitempty"`
	Source      string    `json:"source,omitempty" jsonschema:"description=The field that the column holds."`
	Action      string    `json:"action"`
	From        string    `json:"from_type,omitempty"`
	To          string    `json:"to_type,omitempty"`
	Reason      string    `json:"reason,omitempty"`
}

// Webhook is how the deliveries of one source fare.
type Webhook struct {
	Source   string     `json:"source"`
	Path     string     `json:"path" jsonschema:"description=Where they are received."`
	Scheme   string     `json:"scheme" jsonschema:"description=That verifies them\\, or learn."`
	Last     time.Time  `json:"last_at,omitzero" jsonschema:"description=When the last one came."`
	Received int64      `json:"received" jsonschema:"description=Since the daemon began\\, verified."`
	Refused  []Count    `json:"refused" jsonschema:"description=By reason."`
	PerMin   []int64    `json:"per_minute" jsonschema:"description=Verified deliveries of the last minutes\\, the oldest first."`
	Waiting  int64      `json:"waiting" jsonschema:"description=Events in the inbox that are not applied yet."`
	Lag      float64    `json:"lag_seconds" jsonschema:"description=Age of the oldest of these."`
	Bytes    int64      `json:"inbox_bytes"`
	Captured int        `json:"captured,omitempty" jsonschema:"description=Deliveries that nothing has verified and that are kept to learn the scheme from."`
	Room     int        `json:"captures_most,omitempty" jsonschema:"description=How many of these there may be."`
	Quota    int64      `json:"inbox_quota,omitempty" jsonschema:"description=Bytes beyond which deliveries are put off with 503."`
	Coverage []Coverage `json:"coverage"`
	Dead     []Event    `json:"dead_letters" jsonschema:"description=The newest of the events that could not be applied."`
	DeadSum  int64      `json:"dead_letter_count"`
	Recent   []Event    `json:"recent" jsonschema:"description=The newest events."`
}

// Count is how often something was.
type Count struct {
	Name string `json:"name"`
	N    int64  `json:"count"`
}

// Coverage is how many of a stream's changes an event had announced when polling
// found them.
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
	State    string    `json:"state" jsonschema:"description=applied\\, waiting\\, conflict or dead."`
	Why      string    `json:"why,omitempty"`
	Body     string    `json:"body,omitempty" jsonschema:"description=Its beginning\\, where it is long."`
}
