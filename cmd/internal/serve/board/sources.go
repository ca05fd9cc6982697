package board

import (
	"net/http"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Source is one workspace of the platform, and what became of it in the last run
// of a pipeline over several.
type Source struct {
	Name     string          `json:"source"`
	Pipeline string          `json:"pipeline,omitempty" jsonschema:"description=Absent where none has read it yet."`
	State    SourceState     `json:"state" jsonschema:"enum=ok,enum=attention,enum=failing,enum=paused,enum=new"`
	Status   pipeline.Status `json:"status,omitempty" jsonschema:"description=Of its last run."`
	Run      string          `json:"run,omitempty"`
	At       time.Time       `json:"at,omitzero" jsonschema:"description=The end of its last run."`
	Complete time.Time       `json:"complete_at,omitzero" jsonschema:"description=When it was complete for the last time."`
	Failures int             `json:"failures" jsonschema:"description=Runs in a row that were not complete."`
	Rows     int64           `json:"rows" jsonschema:"description=Written by its last run."`
	Requests int             `json:"requests" jsonschema:"description=Of its last run."`
	Error    string          `json:"error,omitempty" jsonschema:"description=Why it is not complete\\, or paused."`
	Paused   time.Time       `json:"paused_at,omitzero"`
}

// SourceState is how a source stands, in a word.
type SourceState string

// How sources stand.
const (
	SourceFailing   SourceState = "failing"
	SourceAttention SourceState = "attention" // not complete, and not failed
	SourcePaused    SourceState = "paused"
	SourceOK        SourceState = "ok"
	SourceNew       SourceState = "new" // no run has tried it
)

// Tone is the colour of the state.
func (s SourceState) Tone() string {
	if s == SourcePaused {
		return ""
	}
	return string(s)
}

// Word is the state for people.
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

// SourceTally counts sources by how they stand.
type SourceTally struct {
	All, Failing, Attention, Paused, OK, New int
}

// Sources are a part of the sources, those in trouble first, and how many there
// are of each state.
type Sources struct {
	List[Source]
	Tally SourceTally
}

// sourcesView is the page that lists them.
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
