package servers

import (
	"encoding/json"
	"slices"
	"strings"
)

// Simpler returns Specs that lack one feature of s: a signal, a fault, a move, an edit or an unusual name. If s shows
// a bug, a simpler Spec that also shows the bug explains it better.
func (s Spec) Simpler() []Spec {
	var all []Spec
	add := func(change func(*Spec)) {
		c := s.clone()
		change(&c)
		if string(asJSON(c)) != string(asJSON(s)) {
			all = append(all, c)
		}
	}
	for i := range s.Moves {
		add(func(c *Spec) { c.Moves = slices.Delete(c.Moves, i, i+1) })
	}
	for i := range s.Faults {
		add(func(c *Spec) { c.Faults = slices.Delete(c.Faults, i, i+1) })
		add(func(c *Spec) { c.Faults[i].Row = 0 })
		if s.Faults[i].Kind == FaultStatus || s.Faults[i].Kind == FaultObject { // no reading could notice a fault of another kind that occurs in each answer
			add(func(c *Spec) { c.Faults[i].Count = 0 })
		}
	}
	for i := range s.Signals {
		if !strings.HasPrefix(s.Signals[i].Says, "next") { // without this signal, the list would be paged in another way
			add(func(c *Spec) { c.Signals = slices.Delete(c.Signals, i, i+1) })
		}
		add(func(c *Spec) { c.Signals[i].As = "" })
		add(func(c *Spec) { c.Signals[i].End = "" })
		add(func(c *Spec) { c.Signals[i].Host = "" })
	}
	add(func(c *Spec) { c.Edits = Edits{} })
	add(func(c *Spec) { c.Edits.Delete = 0 })
	add(func(c *Spec) { c.Edits.Change = 0 })
	add(func(c *Spec) { c.Edits.Insert = 0 })
	add(func(c *Spec) { c.Unknown = "" })
	add(func(c *Spec) { c.Method = "" })
	add(func(c *Spec) { c.Envelope.Beside = nil })
	add(func(c *Spec) { c.Envelope.Empty = "" })
	add(func(c *Spec) { c.Envelope.Path = []string{"data"} })
	add(func(c *Spec) { c.Records.Nulls = 0 })
	add(func(c *Spec) { c.Records.Twice = 0 })
	add(func(c *Spec) { c.Records.Twice = min(c.Records.Twice, 1) })
	add(func(c *Spec) { c.Records.Hidden, c.Records.Odd = 0, "" })
	add(func(c *Spec) { c.Records.Hidden = 0 })
	add(func(c *Spec) { c.Records.Form = "" })
	add(func(c *Spec) { c.Records.Names = false })
	add(func(c *Spec) { c.Records.Order = "" })
	add(func(c *Spec) { c.Records.Type = "" })
	add(func(c *Spec) { c.Records.Key = "id" })
	add(func(c *Spec) { c.Records.Times = true })
	add(func(c *Spec) { c.Records.Count = min(c.Records.Count, 1) })
	add(func(c *Spec) { c.Records.Count = min(c.Records.Count, 2*c.Size.Default+3) })
	add(func(c *Spec) { c.Size.Param = "" })
	add(func(c *Spec) { c.Size = Size{Param: c.Size.Param, Default: 10} })
	add(func(c *Spec) { c.Size.Over, c.Size.Max = "", 50 })
	add(func(c *Spec) { c.Paging.Beyond = "" })
	add(func(c *Spec) { c.Paging.Bad = "" })
	add(func(c *Spec) { c.Paging.Form = "" })
	if usual := map[string]string{KindPage: "page", KindOffset: "offset", KindToken: "cursor", KindKeyset: "starting_after", KindMoment: "since"}[s.Paging.Kind]; usual != "" {
		add(func(c *Spec) { c.Paging.Param = usual })
	}
	return all
}

func (s Spec) clone() Spec {
	var c Spec
	if err := json.Unmarshal(asJSON(s), &c); err != nil {
		panic(err)
	}
	return c
}
