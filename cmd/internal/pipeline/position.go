package pipeline

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/state"
)

// position is a stream's cursor as a destination stores it. It contains the source's own cursor, and the id of the
// pass, so that a later process can continue the pass. The stored form is
//
//	{"pass":"<id>","at":<source's cursor>,"end":true,"most":41,"turn":3}
//
// Some members are named differently from the fields: "most" is longest, "turn" is passes, "doubt" is parentsUnsure,
// and "by" is touchedBy. In the cursor of the runs, "most" is the number of finished runs. "by" is the id of a later
// run that has committed without moving the position: it makes the cursor differ all the same. "events" is of type
// applied. The zero position is the beginning, stored as "".
type position struct {
	pass      string
	at        state.Cursor
	end       bool
	longest   int64
	touchedBy string

	steady bool // the list again had longest records, but some of them were new

	passes        int64  // finished passes that knew which rows they did not contain
	parentsUnsure string // a pass whose parents must be requested again

	// refuted says why passes read the whole list of an incremental stream. rules is the fingerprint of the rules by
	// which the rows were made. lastComplete is the last finished pass that read every record; "" if that is the field
	// pass.
	refuted      refutation
	rules        string
	lastComplete string

	address string

	done      string
	backfills string // positions of backfills by name, as JSON
	events    string // of type applied, as JSON
}

// encode returns the stored form. A source's cursor that is a JSON object is not quoted, so that people can read it.
func (p position) encode() state.Cursor {
	if p == (position{}) {
		return ""
	}
	var b strings.Builder
	b.WriteString(`{"pass":` + quote(p.pass) + `,"at":`)
	if strings.HasPrefix(string(p.at), "{") && json.Valid([]byte(p.at)) {
		b.WriteString(string(p.at))
	} else {
		b.WriteString(quote(string(p.at)))
	}
	if p.end {
		b.WriteString(`,"end":true`)
	}
	if p.longest > 0 {
		fmt.Fprintf(&b, `,"most":%d`, p.longest)
	}
	if p.steady {
		b.WriteString(`,"steady":true`)
	}
	if p.passes > 0 {
		fmt.Fprintf(&b, `,"turn":%d`, p.passes)
	}
	if p.parentsUnsure != "" {
		b.WriteString(`,"doubt":` + quote(p.parentsUnsure))
	}
	if p.refuted.set() {
		b.WriteString(`,"refuted":` + p.refuted.text())
	}
	for _, f := range [][2]string{{"rules", p.rules}, {"all", p.lastComplete}, {"by", p.touchedBy}, {"address", p.address}} {
		if f[1] != "" {
			b.WriteString(`,"` + f[0] + `":` + quote(f[1]))
		}
	}
	if p.done != "" {
		b.WriteString(`,"done":` + quote(p.done))
	}
	if p.backfills != "" {
		b.WriteString(`,"backfills":` + p.backfills)
	}
	if p.events != "" {
		b.WriteString(`,"events":` + p.events)
	}
	b.WriteString("}")
	return state.Cursor(b.String())
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string always marshals
	return string(b)
}

// decodePosition reads the stored form. The source's cursor is returned byte for byte.
func decodePosition(c state.Cursor) (position, error) {
	if c == "" {
		return position{}, nil
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

		Refuted refutation `json:"refuted"`

		Rules string `json:"rules"`
		All   string `json:"all"`

		Address string `json:"address"`

		Done      string          `json:"done"`
		Backfills json.RawMessage `json:"backfills"`
		Events    json.RawMessage `json:"events"`
	}
	if err := json.Unmarshal([]byte(c), &stored); err != nil {
		return position{}, fmt.Errorf("read cursor %q: %w", c, err)
	}
	if stored.Pass == "" && stored.By == "" || len(stored.At) == 0 {
		return position{}, fmt.Errorf("read cursor %q: %w", c, errors.New("it has no pass or no position"))
	}
	p := position{pass: stored.Pass, at: state.Cursor(stored.At), end: stored.End, longest: max(0, stored.Most), touchedBy: stored.By, steady: stored.Steady,
		passes: max(0, stored.Turn), parentsUnsure: stored.Doubt, refuted: stored.Refuted, rules: stored.Rules, lastComplete: stored.All,
		address: stored.Address, done: stored.Done, backfills: string(stored.Backfills), events: string(stored.Events)}
	if stored.Whole && !p.refuted.set() {
		p.refuted = refutation{Why: "a whole pass found changes with earlier times"}
	}
	if stored.At[0] == '"' {
		var at string
		if err := json.Unmarshal(stored.At, &at); err != nil {
			return position{}, fmt.Errorf("read cursor %q: %w", c, err)
		}
		p.at = state.Cursor(at)
	}
	return p, nil
}

func (p position) midPass() bool { return p.pass != "" && !p.end }

// over returns the id of the last finished pass that read every record; "" if there is none.
func (p position) over() string {
	if p.end {
		return cmp.Or(p.lastComplete, p.pass)
	}
	return p.lastComplete
}

// refutation records that incremental passes over a stream miss changes.
type refutation struct {
	Of  string `json:"of"`  // how the passes request changes
	Why string `json:"why"` // the reason, as text for users
}

func (r refutation) set() bool { return r != refutation{} }

func (r refutation) text() string {
	if !r.set() {
		return ""
	}
	b, _ := json.Marshal(r)
	return string(b)
}
