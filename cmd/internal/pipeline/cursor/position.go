// Package cursor reads and writes the position of a stream that a destination stores.
package cursor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/penstock-data/penstock/state"
)

// Position is a stream's cursor as a destination stores it. It contains the source's own cursor, and the id of the
// pass, so that a later process can continue the pass. The stored form is JSON:
//
//	{"pass":"<id>","at":<source's cursor>,"end":true,"most":41,"turn":3}
//
// The zero Position is the beginning, stored as "".
type Position struct {
	Pass   string       `json:"-"` // see the type stored
	Source state.Cursor `json:"-"` // the source's own cursor

	Ended   bool  `json:"end,omitempty"`
	Longest int64 `json:"most,omitempty"`   // records of the longest whole pass; for the stream of runs, the number of finished runs
	Steady  bool  `json:"steady,omitempty"` // a later whole pass also had Longest records, but some of them were new

	Passes        int64  `json:"turn,omitempty"`  // number of finished passes that found out which rows were missing
	ParentsUnsure string `json:"doubt,omitempty"` // a pass whose parents must be requested again

	Refuted      Refutation `json:"refuted,omitzero"` // why passes read the whole list of an incremental stream
	Rules        string     `json:"rules,omitempty"`  // fingerprint of the rules by which the rows were made
	LastComplete string     `json:"all,omitempty"`    // the last finished pass that read every record; "" if this is the pass in the field Pass
	TouchedBy    string     `json:"by,omitempty"`     // id of a later run that committed without moving the position, so that the new cursor differs from the stored cursor
	Address      string     `json:"address,omitempty"`

	DoneAt    string `json:"done,omitempty"`      // when a backfill ended
	Backfills text   `json:"backfills,omitempty"` // positions of backfills by name
	Events    text   `json:"events,omitempty"`    // of type Applied
}

// The type stored is the form of a Position in JSON.
type stored struct {
	Pass string          `json:"pass"`
	At   json.RawMessage `json:"at"`
	Position
}

// Encode returns the stored form. A source's cursor that is a JSON object is not quoted, so that people can read it.
func (p Position) Encode() state.Cursor {
	if p == (Position{}) {
		return ""
	}
	at := json.RawMessage(p.Source)
	var compact bytes.Buffer
	if !strings.HasPrefix(string(at), "{") || json.Compact(&compact, at) != nil || compact.String() != string(at) {
		at, _ = json.Marshal(string(p.Source)) // a string always marshals
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the source gets its cursor back byte for byte
	if err := e.Encode(stored{p.Pass, at, p}); err != nil {
		panic(err) // Backfills and Events are JSON
	}
	return state.Cursor(strings.TrimSuffix(b.String(), "\n"))
}

// Decode reads the stored form. The source's cursor is returned byte for byte.
func Decode(c state.Cursor) (Position, error) {
	if c == "" {
		return Position{}, nil
	}
	var s stored
	err := json.Unmarshal([]byte(c), &s)
	p := s.Position
	p.Pass, p.Source = s.Pass, state.Cursor(s.At)
	switch {
	case err != nil:
	case p.Pass == "" && p.TouchedBy == "" || len(s.At) == 0:
		err = errors.New("it has no pass or no position")
	case !utf8.ValidString(string(c)): // it could not be stored again unchanged
		err = errors.New("it is not UTF-8")
	}
	if err == nil && s.At[0] == '"' {
		err = json.Unmarshal(s.At, (*string)(&p.Source))
	}
	if err != nil {
		return Position{}, fmt.Errorf("read cursor %q: %w", c, err)
	}
	p.Longest, p.Passes = max(0, p.Longest), max(0, p.Passes)
	return p, nil
}

// text is JSON that is stored as it is. A Position with texts can be compared with ==.
type text string

// MarshalJSON returns t.
func (t text) MarshalJSON() ([]byte, error) { return []byte(t), nil }

// UnmarshalJSON stores b without spaces.
func (t *text) UnmarshalJSON(b []byte) error {
	var compact bytes.Buffer
	err := json.Compact(&compact, b)
	*t = text(compact.String())
	return err
}

// MidPass reports whether the pass is not finished.
func (p Position) MidPass() bool { return p.Pass != "" && !p.Ended }

// LastWhole returns the id of the last finished pass that read every record; "" if there is none.
func (p Position) LastWhole() string {
	if p.Ended {
		return cmp.Or(p.LastComplete, p.Pass)
	}
	return p.LastComplete
}

// Refutation says that incremental passes over a stream miss changes, and why.
type Refutation struct {
	Of  string `json:"of"`  // how the passes request changes
	Why string `json:"why"` // the reason, as text for users
}

// IsSet reports whether r records a reason.
func (r Refutation) IsSet() bool { return r != Refutation{} }
