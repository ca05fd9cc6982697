// Package cursor reads and writes the position of a stream that a destination stores.
package cursor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/state"
)

// Position is a stream's cursor as a destination stores it. It contains the source's own cursor, and the id of the
// pass, so that a later process can continue the pass. The stored form is
//
//	{"pass":"<id>","at":<source's cursor>,"end":true,"most":41,"turn":3}
//
// Some members are named differently from the fields: "most" is longest, "turn" is passes, "doubt" is parentsUnsure,
// and "by" is touchedBy. In the cursor of the runs, "most" is the number of finished runs. "by" is the id of a later
// run that has committed without moving the position: it makes the cursor differ all the same. "events" is of type
// applied. The zero position is the beginning, stored as "".
type Position struct {
	Pass      string
	Source    state.Cursor
	Ended     bool
	Longest   int64
	TouchedBy string

	Steady bool // the list again had longest records, but some of them were new

	Passes        int64  // finished passes that knew which rows they did not contain
	ParentsUnsure string // a pass whose parents must be requested again

	// refuted says why passes read the whole list of an incremental stream. rules is the fingerprint of the rules by
	// which the rows were made. lastComplete is the last finished pass that read every record; "" if that is the field
	// pass.
	Refuted      Refutation
	Rules        string
	LastComplete string

	Address string

	DoneAt    string
	Backfills string // positions of backfills by name, as JSON
	Events    string // of type applied, as JSON
}

// Encode returns the stored form. A source's cursor that is a JSON object is not quoted, so that people can read it.
func (p Position) Encode() state.Cursor {
	if p == (Position{}) {
		return ""
	}
	var b strings.Builder
	b.WriteString(`{"pass":` + quote(p.Pass) + `,"at":`)
	if strings.HasPrefix(string(p.Source), "{") && json.Valid([]byte(p.Source)) {
		b.WriteString(string(p.Source))
	} else {
		b.WriteString(quote(string(p.Source)))
	}
	if p.Ended {
		b.WriteString(`,"end":true`)
	}
	if p.Longest > 0 {
		fmt.Fprintf(&b, `,"most":%d`, p.Longest)
	}
	if p.Steady {
		b.WriteString(`,"steady":true`)
	}
	if p.Passes > 0 {
		fmt.Fprintf(&b, `,"turn":%d`, p.Passes)
	}
	if p.ParentsUnsure != "" {
		b.WriteString(`,"doubt":` + quote(p.ParentsUnsure))
	}
	if p.Refuted.IsSet() {
		b.WriteString(`,"refuted":` + p.Refuted.text())
	}
	for _, f := range [][2]string{{"rules", p.Rules}, {"all", p.LastComplete}, {"by", p.TouchedBy}, {"address", p.Address}} {
		if f[1] != "" {
			b.WriteString(`,"` + f[0] + `":` + quote(f[1]))
		}
	}
	if p.DoneAt != "" {
		b.WriteString(`,"done":` + quote(p.DoneAt))
	}
	if p.Backfills != "" {
		b.WriteString(`,"backfills":` + p.Backfills)
	}
	if p.Events != "" {
		b.WriteString(`,"events":` + p.Events)
	}
	b.WriteString("}")
	return state.Cursor(b.String())
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string always marshals
	return string(b)
}

// Decode reads the stored form. The source's cursor is returned byte for byte.
func Decode(c state.Cursor) (Position, error) {
	if c == "" {
		return Position{}, nil
	}
	var stored struct {
		Pass string          `json:"pass"`
		At   json.RawMessage `json:"at"`
		End  bool            `json:"end"`
		Most int64           `json:"most"`
		By   string          `json:"by"`

		Steady bool `json:"steady"`

		Turn  int64  `json:"turn"`
		Doubt string `json:"doubt"`
		Whole bool   `json:"whole"` // written by earlier releases instead of refuted

		Refuted Refutation `json:"refuted"`

		Rules string `json:"rules"`
		All   string `json:"all"`

		Address string `json:"address"`

		Done      string          `json:"done"`
		Backfills json.RawMessage `json:"backfills"`
		Events    json.RawMessage `json:"events"`
	}
	if err := json.Unmarshal([]byte(c), &stored); err != nil {
		return Position{}, fmt.Errorf("read cursor %q: %w", c, err)
	}
	if stored.Pass == "" && stored.By == "" || len(stored.At) == 0 {
		return Position{}, fmt.Errorf("read cursor %q: %w", c, errors.New("it has no pass or no position"))
	}
	p := Position{Pass: stored.Pass, Source: state.Cursor(stored.At), Ended: stored.End, Longest: max(0, stored.Most), TouchedBy: stored.By, Steady: stored.Steady,
		Passes: max(0, stored.Turn), ParentsUnsure: stored.Doubt, Refuted: stored.Refuted, Rules: stored.Rules, LastComplete: stored.All,
		Address: stored.Address, DoneAt: stored.Done, Backfills: string(stored.Backfills), Events: string(stored.Events)}
	if stored.Whole && !p.Refuted.IsSet() {
		p.Refuted = Refutation{Why: "a whole pass found changes with earlier times"}
	}
	if stored.At[0] == '"' {
		var at string
		if err := json.Unmarshal(stored.At, &at); err != nil {
			return Position{}, fmt.Errorf("read cursor %q: %w", c, err)
		}
		p.Source = state.Cursor(at)
	}
	return p, nil
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

// Refutation records that incremental passes over a stream miss changes.
type Refutation struct {
	Of  string `json:"of"`  // how the passes request changes
	Why string `json:"why"` // the reason, as text for users
}

// IsSet reports whether there is one.
func (r Refutation) IsSet() bool { return r != Refutation{} }

func (r Refutation) text() string {
	if !r.IsSet() {
		return ""
	}
	b, _ := json.Marshal(r)
	return string(b)
}
