package knowledge

import (
	"time"

	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/extract"
)

// Explanation is the JSON form of [Knowledge], for programs.
type Explanation struct {
	Stream    string             `json:"stream"`
	LearnedAt time.Time          `json:"learned_at,omitzero"`
	Kept      string             `json:"destination,omitempty"` // the destination that stores the convention
	Requests  int                `json:"requests"`              // requests that were sent to learn the convention
	Facts     []extract.Fact     `json:"facts"`
	YAML      string             `json:"yaml"`
	Proved    *history.LastPass  `json:"certificate,omitempty"` // certificate of the last pass
	Rest      []history.Overflow `json:"rest,omitempty"`        // members without a column, because of the column limit
}

// Explain returns what is known about the stream, and why.
func (k Knowledge) Explain() Explanation {
	facts := k.Facts()
	if facts == nil {
		facts = []extract.Fact{}
	}
	e := Explanation{k.Stream.Name, k.Learned.LearnedAt, k.StoredIn, k.Learned.Requests, facts, k.YAML(), nil, k.Rest}
	if k.LastPass.Run != "" {
		e.Proved = &k.LastPass
	}
	return e
}
