package config

import (
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// Pipeline loads streams of its sources into its destinations, by hand or on a schedule.
type Pipeline struct {
	At          Pos
	Name        string
	From        []Ref // the sources; patterns are resolved
	MultiSource bool  // `from` can select several sources, even if it selects only one now
	To          []Ref
	Streams     []Ref // patterns: a name, or a name with *; a ! before it excludes
	Schedule    *Schedule
	Mode        Ref // default: merge
	Schema      Contract
	Mask        []Mask
	MaskKey     wire.Secret   // key of the mask hmac
	Changes     bool          // log each changed row in _penstock_changes
	Keep        time.Duration // how long the rows of penstock's own tables stay in the destinations
	Alerts      *Alerts       // nil: the alerts of the file apply
	After       []Command     // what runs after each complete run, one after the other
}

// Mask is a pipeline's mask for a column.
type Mask struct {
	At     Pos
	Stream string // name or pattern of streams
	Column string // name or pattern of columns; "" if Preset is set
	Preset string // name of a set of masks; "" if Mask is set
	Mask   schemas.Mask
}

func (m Mask) rule() schemas.MaskRule {
	return schemas.MaskRule{Column: m.Column, Exact: !strings.Contains(m.Stream+m.Column, "*"), Mask: m.Mask}
}
