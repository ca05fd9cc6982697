package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// Select returns the streams of a pipeline, parents before their children, with the mode and the rules of the pipeline.
// A full name selects a stream even if the stream is disabled. A pattern with * selects only enabled streams of
// surfaces that the source has. If several patterns match a stream, the last of them decides.
//
// If selection is not empty, Select returns only the streams that match the names and patterns in selection. The error
// is [Faults].
func (c *Config) Select(p Pipeline, selection []string) ([]Stream, error) {
	var faults Faults
	chosen := c.choose(p, p.Streams, &faults)
	if len(selection) > 0 {
		refs := make([]Ref, len(selection))
		for i, text := range selection {
			refs[i] = Ref{Text: text}
			if bad := badPattern(text, c.Streams); bad != "" {
				faults = append(faults, Fault{Message: bad})
			}
		}
		named := map[string]bool{}
		for _, s := range c.choose(p, refs, &faults) {
			named[s.Name] = true
		}
		chosen = slices.DeleteFunc(chosen, func(s Stream) bool { return !named[s.Name] })
		if len(chosen) == 0 && len(faults) == 0 {
			faults = append(faults, Fault{Message: fmt.Sprintf("pipeline %s has no stream %s", p.Name, joinFew(selection))})
		}
	}
	for i := range chosen {
		chosen[i] = c.withRules(p, chosen[i])
	}
	say := func(at Pos, format string, args ...any) {
		faults = append(faults, Fault{File: c.File, Pos: at, Message: fmt.Sprintf(format, args...)})
	}
	c.checkMasks(p, chosen, say)
	c.checkChecks(p, chosen, say)
	if len(faults) > 0 {
		return nil, faults.sorted()
	}
	return parentsFirst(chosen), nil
}

func (c *Config) withRules(p Pipeline, s Stream) Stream {
	s.Table.Mode = s.Mode.Or(schemas.Mode(p.Mode.Text))
	s.Rules.Contract = schemas.Contract{
		Tables:  cmp.Or(s.Schema.Tables, p.Schema.Tables, schemas.Evolve),
		Columns: cmp.Or(s.Schema.Columns, p.Schema.Columns, schemas.Evolve),
		Types:   cmp.Or(s.Schema.Types, p.Schema.Types, schemas.Evolve),
	}
	s.Rules.Masks = c.masksFor(p, s)
	s.Rules.MaskKey = schemas.MaskKey(p.MaskKey.Reveal())
	s.Log = p.Changes
	if s.Changes != nil {
		s.Log = *s.Changes
	}
	return s
}

// choose returns the streams that the patterns select. If all patterns are exclusions, such as ["!hr.payslips"], the
// result has all other streams.
func (c *Config) choose(p Pipeline, patterns []Ref, faults *Faults) []Stream {
	if !slices.ContainsFunc(patterns, func(r Ref) bool { return !strings.HasPrefix(r.Text, "!") }) {
		patterns = append([]Ref{{Text: "*"}}, patterns...)
	}
	var chosen []Stream
	for _, s := range c.Streams {
		if !s.Class.Readable() {
			continue
		}
		var by *Ref
		for i := range patterns {
			text, not := strings.CutPrefix(patterns[i].Text, "!")
			if !matches(text, s.Name) {
				continue
			}
			switch exact := text == s.Name; {
			case not:
				by = nil
			case exact || s.Enabled && c.unmet(p, s) == "":
				by = &patterns[i]
			}
		}
		if by == nil {
			continue
		}
		if need := c.unmet(p, s); need != "" && p.MultiSource && len(p.From) == 1 {
			continue // other sources of the pipeline have what the stream needs
		} else if need != "" {
			*faults = append(*faults, Fault{File: c.File, Pos: by.At, Message: fmt.Sprintf("stream %s %s", s.Name, need)})
			continue
		}
		chosen = append(chosen, s)
	}
	return chosen
}

// unmet returns what must still be set before a stream can be read. It returns "" if nothing is missing.
func (c *Config) unmet(p Pipeline, s Stream) string {
	if s.Auth == schemas.AuthWhiteLabel && !s.Credential.set() {
		return fmt.Sprintf("needs a white-label token; set it under streams: %s: {auth: {token: …}}", s.Name)
	}
	for _, param := range s.Params {
		if param.From == "" && param.Value == "" {
			return fmt.Sprintf("needs a value for %s; set it under streams: %s: {params: {%s: …}}", param.Name, s.Name, param.Name)
		}
	}
	if s.Origin != "" {
		return ""
	}
	for _, from := range p.From {
		src, _ := c.Source(from.Text)
		switch has := src.Surface(s.Surface) != nil; {
		case has && p.MultiSource:
			return "" // one source with the surface is enough
		case !has && !p.MultiSource:
			return fmt.Sprintf("belongs to the surface %s, which source %s does not configure", s.Surface, from.Text)
		}
	}
	if p.MultiSource && len(p.From) > 0 {
		return fmt.Sprintf("belongs to the surface %s, which no source of the pipeline configures", s.Surface)
	}
	return ""
}

// parentsFirst moves parents before their children, and does not change the order otherwise.
func parentsFirst(all []Stream) []Stream {
	at := map[string]int{}
	for i, s := range all {
		at[s.Name] = i
	}
	placed := make([]bool, len(all))
	ordered := make([]Stream, 0, len(all))
	var place func(i int)
	place = func(i int) {
		if placed[i] {
			return
		}
		placed[i] = true
		if up, ok := at[all[i].Parent]; ok {
			place(up)
		}
		ordered = append(ordered, all[i])
	}
	for i := range all {
		place(i)
	}
	return ordered
}
