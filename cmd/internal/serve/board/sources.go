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
	State    Tone            `json:"state" jsonschema:"enum=ok,enum=attention,enum=failing,enum=paused,enum=new"`
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

// Word returns the state as shown on pages.
func (s Source) Word() string {
	switch s.State {
	case ToneOK:
		return "complete"
	case ToneNew:
		return "not read yet"
	case ToneAttention:
		return "not complete"
	case ToneFailing:
		return "failed"
	}
	return string(s.State)
}

// Sources is a page of the list of sources, problems first. Tally counts all sources by state.
type Sources struct {
	List[Source]
	Tally StateCounts
}

type sourcesView struct {
	listView[Source]
	Tally StateCounts
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
