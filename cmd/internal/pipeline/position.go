package pipeline

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/state"
)

// position is what a destination stores as a stream's cursor: the source's own
// cursor, and the pass it stands in, which a later process needs in order to
// carry that pass on. The stored form is
//
//	{"pass":"<id>","at":<source's cursor>,"end":true,"most":41,"turn":3}
//
// where end says that the pass was finished there, and most how many records the
// longest whole pass so far has found; of the runs themselves, most counts those
// that have ended. What turn and doubt are for, parentage says. The zero position
// is the beginning, stored as "".
//
// A position may have been touched since, by a run that did not read: "by" is its
// id. It is the same place, but not the same cursor. "backfills" are the positions
// of readings of their own: see Backfill. "events" is how far the stream's webhook
// events are applied: see applied.
type position struct {
	pass      string
	at        state.Cursor
	end       bool
	longest   int64
	touchedBy string

	steady bool // the list had that many records again, and some were others

	passes        int64  // passes that have ended and knew what they did not carry
	parentsUnsure string // a pass whose readings of parents have to be made again

	// refuted says why passes read the whole list of a stream that is to be read
	// incrementally; rules, of a list that is read incrementally, by which
	// definition its rows were made; all, the last pass that has ended and left
	// nothing out, where that is another than pass.
	refuted      refutation
	rules        string
	lastComplete string

	address string // of the source, as its passes have read it

	done      string // of a backfill: when it has ended
	backfills string // the positions of backfills by their names, as JSON
	events    string // an applied, as JSON
}

// encode writes p down. A source's cursor that is a JSON object stands as it
// is, for people who print the state; any other is quoted.
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

// decodePosition reads what encode wrote. The source's cursor comes back byte
// by byte.
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
		Whole bool   `json:"whole"` // of earlier releases: refuted, without a reason

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
		return position{}, fmt.Errorf("read cursor %q: %w", c, errors.New("no pass or no place in it"))
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

// midPass reports whether p stands inside a pass that was not finished.
func (p position) midPass() bool { return p.pass != "" && !p.end }

// over is the last pass that has ended and gone over every record; "" for none.
func (p position) over() string {
	if p.end {
		return cmp.Or(p.lastComplete, p.pass)
	}
	return p.lastComplete
}
