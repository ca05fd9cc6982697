package board

import (
	"net/http"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Source is one workspace of the platform, with its outcome in the last run of a multi-source pipeline.
type Source struct {
	Name     string          `json:"source"`
	Pipeline string          `json:"pipeline,omitempty" jsonschema:"description=Absent if no pipeline has read it yet."`
	State    SourceState     `json:"state" jsonschema:"enum=ok,enum=attention,enum=failing,enum=paused,enum=new"`
	Status   pipeline.Status `json:"status,omitempty" jsonschema:"description=Status of its last run."`
	Run      string          `json:"run,omitempty"`
	At       time.Time       `json:"at,omitzero" jsonschema:"description=When its last run ended."`
	Complete time.Time       `json:"complete_at,omitzero" jsonschema:"description=When it was last complete."`
	Failures int             `json:"failures" jsonschema:"description=Consecutive runs that were not complete."`
	Rows     int64           `json:"rows" jsonschema:"description=Rows written by its last run."`
	Requests int             `json:"requests" jsonschema:"description=Requests of its last run."`
	Error    string          `json:"error,omitempty" jsonschema:"description=Why the source is not complete\\, or why it is paused."`
	Paused   time.Time       `json:"paused_at,omitzero"`
}

// SourceState is the state of a source.
type SourceState string

// The states of sources.
const (
	SourceFailing   SourceState = "failing"
	SourceAttention SourceState = "attention" // not complete, but not failed
	SourcePaused    SourceState = "paused"
	SourceOK        SourceState = "ok"
	SourceNew       SourceState = "new" // not read by any run yet
)

// Tone returns the severity of the state; "" if it is paused.
func (s SourceState) Tone() string {
	if s == SourcePaused {
		return ""
	}
	return string(s)
}

// Word returns the state as shown on pages.
func (s SourceState) Word() string {
	switch s {
	case SourceOK:
		return "complete"
	case SourceNew:
		return "not read yet"
	case SourceAttention:
		return "not complete"
	case SourceFailing:
		return "failed"
	}
	return string(s)
}

// SourceTally counts sources by state.
type SourceTally struct {
	All, Failing, Attention, Paused, OK, New int
}

// Sources is a page of the list of sources, problems first, and the number in each state.
type Sources struct {
	List[Source]
	Tally SourceTally
}

type sourcesView struct {
	listView[Source]
	Tally SourceTally
}

func (b *Board) sourcesPage(r *http.Request) (any, error) {
	q := queryOf(r)
	all, err := b.Facts.Sources(r.Context(), q)
	return sourcesView{viewOf(r, q, all.List), all.Tally}, err
}

func (b *Board) sourcesPart(r *http.Request) (any, error) {
	q := queryOf(r)
	all, err := b.Facts.Sources(r.Context(), q)
	return itemsOf(r, q, all.List), err
}
