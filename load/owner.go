package load

import (
	"encoding/json"
	"fmt"

	"github.com/penstock-data/penstock/state"
)

// Origin identifies the source of a stream's rows.
type Origin struct {
	Source  string `json:"source,omitempty"`  // name of the workspace
	Address string `json:"address,omitempty"` // its URL, without secrets
}

// Owner is the pipeline and stream that write a table and its child tables. A destination records it in [Changes], in
// a row with [ActionOwner]. If several sources share the table, its owner has no Origin.
type Owner struct {
	Pipeline string `json:"pipeline"`
	Stream   string `json:"stream"`
	Origin
}

// Claim says which table a transaction writes, and from which source.
type Claim struct {
	Table string // the stream's root table; "" if the transaction writes only penstock's own tables
	Origin
	// Adopt takes the table over from another owner. A person must have confirmed that. The transaction then resets the
	// cursor of the stream that owned the table before.
	Adopt bool
}

// StreamState describes the table of a stream. Because the stream has a cursor, the table should exist.
type StreamState struct {
	Owner *Owner   // owner of the root table; nil if none is recorded
	Gone  []string // tables that penstock made and that no longer exist
	Empty bool     // the root table exists, but has no row of the source
	Made  string   // the run that made the root table; "" if unknown
}

// Owned checks whether the stream k may write the claimed table. The parameter cursor is the stream's cursor. The
// parameter previous is the table's recorded owner; nil if there is none. Owned returns the new owner and whether this
// owner must be recorded. If the table belongs to another owner, Owned returns an [*OwnerError]. If the cursor is "",
// the stream is read from the beginning, so another origin is allowed. // Invariant 13
func (c Claim) Owned(k state.Key, cursor state.Cursor, previous *Owner) (want Owner, record bool, err error) {
	want = Owner{Pipeline: k.Pipeline, Stream: k.Stream, Origin: c.Origin}
	if k.Source != "" {
		want.Origin = Origin{}
	}
	switch {
	case c.Table == "":
		return want, false, nil
	case previous == nil, c.Adopt:
		return want, previous == nil || *previous != want, nil
	case previous.Pipeline != want.Pipeline || previous.Stream != want.Stream:
		return want, false, &OwnerError{Table: c.Table, Have: *previous, Want: want}
	case *previous == want || want.Origin == (Origin{}):
		return want, false, nil
	case previous.Origin == (Origin{}) || cursor == "":
		return want, true, nil
	}
	return want, false, &OwnerError{Table: c.Table, Have: *previous, Want: want}
}

// Change returns the row of [Changes] that records o as the owner of a table. The parameter previous is the previous
// owner; nil if there was none.
func (o Owner) Change(table string, previous *Owner) Change {
	c := Change{Table: table, Action: ActionOwner, To: o.text(), Reason: "first rows"}
	if previous != nil {
		c.From, c.Reason = previous.text(), "adopted, or read from the beginning"
	}
	return c
}

func (o Owner) text() string {
	text, _ := json.Marshal(o) // strings always marshal
	return string(text)
}

// ParseOwner parses an owner that [Owner.Change] has recorded. It returns nil for "".
func ParseOwner(text string) (*Owner, error) {
	if text == "" {
		return nil, nil
	}
	o := &Owner{}
	if err := json.Unmarshal([]byte(text), o); err != nil {
		return nil, fmt.Errorf("read owner %q: %w", text, err)
	}
	return o, nil
}

// OwnerError reports that the table belongs to the owner Have, not to Want. Nothing was written.
type OwnerError struct {
	Table      string
	Have, Want Owner
}

// Moved reports whether both owners may be the same workspace: only the address of the source differs, or only its
// name.
func (e *OwnerError) Moved() bool {
	return e.Have.Pipeline == e.Want.Pipeline && e.Have.Stream == e.Want.Stream &&
		(e.Have.Source == e.Want.Source || e.Have.Address == e.Want.Address)
}

// Error names both owners.
func (e *OwnerError) Error() string {
	h, w := e.Have, e.Want
	switch {
	case h.Pipeline != w.Pipeline || h.Stream != w.Stream:
		return fmt.Sprintf("table %s belongs to stream %s of pipeline %s, not to stream %s of pipeline %s", e.Table, h.Stream, h.Pipeline, w.Stream, w.Pipeline)
	case h.Source == w.Source:
		return fmt.Sprintf("table %s was filled from source %s at %s, which is now at %s", e.Table, h.Source, h.Address, w.Address)
	case h.Address == w.Address:
		return fmt.Sprintf("table %s was filled from source %s, which is now called %s (both at %s)", e.Table, h.Source, w.Source, w.Address)
	}
	return fmt.Sprintf("table %s belongs to source %s at %s, not to source %s at %s", e.Table, h.Source, h.Address, w.Source, w.Address)
}
