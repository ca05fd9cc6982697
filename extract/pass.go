package extract

import (
	"github.com/penstock-data/penstock/schemas"
)

type pass struct {
	c       *Client
	s       schemas.Stream
	mark    passCursor
	resumed bool
	note    string                      // for people; it becomes [End].Note
	selects func(p Parent, of int) bool // fan-out: reports whether to request p, given the number of all parents; nil: request all
	seen    observed
	early   *earlyAnswers // answers that the negotiation before this pass has kept; nil: none
}

type observed struct {
	records int64
	stale   int64
}
