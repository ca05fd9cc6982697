package servers

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

type drawer struct {
	*rand.Rand
	Spec
	meta string // JSON pointer of the object with the signals, or "header"
}

// Draw returns the Spec of a seed. The same seed gives the same Spec.
func Draw(seed uint64) Spec {
	d := draw(seed)
	d.addRareFeature()
	return d.Spec
}

func draw(seed uint64) *drawer {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 0x5e17)), Spec: Spec{Seed: seed}}
	d.envelope()
	d.size()
	d.records()
	d.paging()
	d.noise()
	d.addTrouble()
	return d
}

func (d *drawer) chance(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d *drawer, all ...T) T { return all[d.IntN(len(all))] }

func (d *drawer) word(kind string) string { return pick(d, schemas.Paging().Sandbox[kind]...) }

var envelopes = []struct {
	path []string
	meta []string
}{
	{nil, nil}, {nil, nil},
	{[]string{"data"}, []string{"/meta", "", "/pagination", "/paging", "/meta/pagination", "/page_info"}},
	{[]string{"data"}, []string{"/meta", "", "/metadata", "/response_metadata"}},
	{[]string{"items"}, []string{"", "/meta", "/info"}},
	{[]string{"results"}, []string{"", "/paging"}},
	{[]string{"records"}, []string{"", "/meta"}},
	{[]string{"data", "items"}, []string{"/data/pagination", "/data", "/meta"}},
	{[]string{"data", "data"}, []string{"/data"}},
	{[]string{"result", "entries"}, []string{"/result", "/result/meta", ""}},
	{[]string{"response", "result", "list"}, []string{"/response/result", "/response"}},
	{[]string{"_embedded", "customers"}, []string{"/page", ""}},
	{[]string{"d", "results"}, []string{"/d"}},
	{[]string{"value"}, []string{""}},
	{[]string{"hydra:member"}, []string{""}},
	{[]string{"customers"}, []string{"", "/meta"}},
	{[]string{"hits", "hits"}, []string{"/hits", ""}},
}

func (d *drawer) envelope() {
	e := pick(d, envelopes...)
	d.Envelope.Path = e.path
	d.meta = "header"
	if e.path != nil {
		d.meta = pick(d, e.meta...)
	}
	if e.path != nil && d.chance(4) {
		d.Envelope.Beside = pick(d,
			map[string]json.RawMessage{"success": raw(`true`), "message": raw(`"ok"`)},
			map[string]json.RawMessage{"status": raw(`"success"`)},
			map[string]json.RawMessage{"object": raw(`"list"`), "url": raw(`"/v1/customers"`)},
			map[string]json.RawMessage{"filters": raw(`[{"id":1,"name":"all"}]`), "labels": raw(`["a","b"]`)},
			map[string]json.RawMessage{"id": raw(`17`), "kind": raw(`"customerList"`)},
		)
	}
	if e.path != nil && d.chance(10) {
		d.Envelope.Empty = pick(d, "null", "absent")
	}
}

func (d *drawer) size() {
	d.Size = Size{Param: d.word("size"), Default: pick(d, 10, 10, 20, 25), Max: pick(d, 0, 50, 50, 100, 30), Over: pick(d, "", "", "400", "default")}
	if d.chance(5) {
		d.Size.Param, d.Size.Max = "", 0
	}
}

func (d *drawer) records() {
	n := d.Size.Default
	d.Records = Records{
		Count: pick(d, 0, 1, 2, 7, n-1, n, n+1, 2*n, 2*n+3, 3*n, 3*n+7, 4*n+1), Key: pick(d, "id", "id", "id", "id", "ID", "uuid", "Id", "customer_id", "_id"),
		Type: pick(d, TypeInt, TypeInt, TypeText, TypeUUID), Order: pick(d, OrderOldest, OrderOldest, OrderNewest, OrderChange), Times: !d.chance(4), Names: d.chance(3),
	}
	switch d.IntN(20) {
	case 0:
		d.Records.Form = FormWrapped
	case 1:
		d.Records.Form, d.Records.Key = FormAttributes, "id"
	case 2:
		if d.Envelope.Path != nil {
			d.Records.Form, d.Records.Key, d.Records.Type = FormKeyed, "id", TypeText
		}
	case 3:
		if d.Envelope.Path != nil {
			d.Records.Form, d.Records.Key = FormNumbered, "id"
		}
	case 4:
		d.Records.Key = ""
	case 5:
		d.Records.Twice = 1 + d.IntN(3)
	case 6:
		d.Records.Nulls = 1 + d.IntN(2)
	}
	if d.Records.Order == OrderChange {
		d.Records.Times = true
	}
	switch d.IntN(30) {
	case 0:
		d.Records.Odd = pick(d, OddSurrogate, OddTab, OddDeep)
	case 1:
		d.Records.Hidden = pick(d, 2, n, 2*n+n/2)
	case 2:
		d.Records.Twice = 1
	}
	d.Edits = Edits{Delete: d.IntN(3), Change: d.IntN(4), Insert: d.IntN(4)}
}

func (d *drawer) addTrouble() {
	if d.chance(10) {
		d.Moves = append(d.Moves, Move{Run: 1 + d.IntN(2), At: 1 + d.IntN(14), Count: 1 + d.IntN(2),
			Kind: pick(d, MoveDeleteFirst, MoveDeleteLast, MoveInsertFirst, MoveInsertLast, MoveChange)})
	}
	if !d.chance(4) {
		return
	}
	row := 1 + d.IntN(max(d.Records.Count, 1))
	f := Fault{Run: pick(d, 0, 2, 2), Row: row}
	switch d.IntN(7) {
	case 0, 1:
		f.Kind, f.Status, f.Count = FaultStatus, pick(d, 500, 503, 502, 404, 403), pick(d, 0, 0, 1, 2)
	case 2:
		f.Kind, f.Status, f.Count = FaultStatus, 429, 1
	case 3:
		f.Kind, f.Run, f.Count = FaultObject, 2, pick(d, 0, 0, 1)
		if d.chance(2) {
			f.Row = 0
		}
	case 4:
		f.Kind, f.Run, f.Count = pick(d, FaultHalf, FaultEmptied), 2, 1
		for i := range d.Signals { // if the total counted only the shown records, nothing would reveal that half of the records are missing
			if d.Signals[i].Says == "total here" {
				d.Signals[i].Says = "total"
			}
		}
	case 5:
		f.Kind, f.Run, f.Row = FaultMoved, 2, 0
	default:
		s := pick(d, incompleteMarkers...)
		if len(d.Envelope.Path) == 0 && s.Status == 0 {
			s = Fault{At: "header X-Partial", Value: raw(`true`)}
		}
		if s.Status != 0 && d.Paging.Kind == KindRange {
			s = Fault{At: "header X-Partial", Value: raw(`true`)} // status 206 is normal for ranges
		}
		s.Kind, s.Run = FaultPartial, pick(d, 0, 2)
		f = s
	}
	d.Faults = append(d.Faults, f)
}

func (d *drawer) at(name string) string {
	place := d.meta + "/" + name
	parent := "/" + strings.Join(d.Envelope.Path, "/")
	if place == parent || slices.ContainsFunc(d.Signals, func(s Signal) bool { return s.At == place }) {
		return ""
	}
	return place
}

func (d *drawer) say(s Signal, word string) bool {
	if d.meta == "header" {
		return false
	}
	if s.At = d.at(d.word(word)); s.At == "" {
		return false
	}
	d.Signals = append(d.Signals, s)
	return true
}

func (d *drawer) sayHeader(s Signal, word string) {
	s.At = "header " + d.word(word)
	d.Signals = append(d.Signals, s)
}

func (d *drawer) noise() {
	if d.meta == "header" || !d.chance(4) {
		return
	}
	s := pick(d,
		Signal{At: "/request_id", Says: "request"}, Signal{At: "/took", Says: "constant", Value: raw(`3`)}, Signal{At: "/version", Says: "constant", Value: raw(`"2.1"`)},
		Signal{At: "/generated_at", Says: "constant", Value: raw(`"2026-03-01T10:00:00Z"`)}, Signal{At: "/api_version", Says: "constant", Value: raw(`2`)}, Signal{At: "/errors", Says: "constant", Value: raw(`[]`)},
		Signal{At: "/partial", Says: "constant", Value: raw(`false`)}, Signal{At: "/error", Says: "constant", Value: raw(`null`)})
	if _, taken := d.Envelope.Beside[s.At[1:]]; !taken && (len(d.Envelope.Path) == 0 || d.Envelope.Path[0] != s.At[1:]) {
		d.Signals = append(d.Signals, s)
	}
}
