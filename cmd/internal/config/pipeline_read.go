package config

import (
	"slices"
	"strings"
	"time"
)

// defaultKeep is a year and a month, so that certificates can be compared with those of the same month of the year
// before.
const defaultKeep = 400 * 24 * time.Hour

func readPipeline(e entry, c *Config) Pipeline {
	p := Pipeline{At: e.at, Name: e.key, Mode: Ref{Text: "merge"}, Keep: defaultKeep}
	e.as("pipeline "+e.key).mapping(fields{
		"from":     func(v value) { p.readFrom(v, c) },
		"to":       func(v value) { p.To = refs(v, "destination", destinationNames(c.Destinations)) },
		"streams":  func(v value) { p.Streams = patterns(v, c.Streams) },
		"schedule": set(&p.Schedule, readSchedule),
		"mode":     func(v value) { p.Mode.At = v.pos(); choice(&p.Mode.Text, modes...)(v) },
		"schema":   set(&p.Schema, readContract),
		"mask":     func(v value) { p.Mask = masks(v, c.Streams) },
		"mask_key": set(&p.MaskKey, maskKey),
		"changes":  boolean(&p.Changes),
		"keep":     func(v value) { p.Keep = period(v) },
		"alerts":   func(v value) { p.Alerts = readPipelineAlerts(v, c.Alerts) },
		"after":    set(&p.After, readAfter),
	}, "from", "to")
	if p.Streams == nil {
		p.Streams = []Ref{{Text: "*"}}
	}
	return p
}

func refs(v value, kind string, known []string) []Ref {
	var all []Ref
	for _, s := range v.texts() {
		switch {
		case !slices.Contains(known, s.value):
			v.fault(s.at, "%s: no %s %q%s", v.what, kind, s.raw, suggestion(s.raw, known))
		case slices.ContainsFunc(all, func(o Ref) bool { return o.Text == s.value }):
			v.fault(s.at, "%s names %q twice", v.what, s.raw)
		default:
			all = append(all, Ref{s.at, s.value})
		}
	}
	v.notEmpty(len(all))
	return all
}

// patterns reads patterns of streams. A pattern that matches no stream is probably misspelled, so it is reported.
func patterns(v value, streams []Stream) []Ref {
	refs := []Ref{}
	for _, s := range v.texts() {
		if bad := badPattern(s.value, streams); bad != "" {
			v.fault(s.at, "%s: %s", v.what, bad)
			continue
		}
		refs = append(refs, Ref{s.at, s.value})
	}
	return refs
}

// readFrom reads `from`: names and patterns of sources.
func (p *Pipeline) readFrom(v value, c *Config) {
	var patterns []Ref
	known := sourceNames(c)
	for _, s := range v.texts() {
		name := strings.TrimPrefix(s.value, "!")
		switch {
		case strings.ContainsAny(name, `?[]\`):
			v.fault(s.at, "%s: %q: only * is a wildcard", v.what, s.raw)
		case strings.Contains(name, "*") || name != s.value:
			p.MultiSource = true
		case !slices.Contains(known, name):
			v.fault(s.at, "%s: no source %q%s", v.what, s.raw, suggestion(s.raw, known))
		case slices.ContainsFunc(patterns, func(o Ref) bool { return o.Text == s.value }):
			v.fault(s.at, "%s names %q twice", v.what, s.raw)
		}
		patterns = append(patterns, Ref{s.at, s.value})
	}
	p.MultiSource = p.MultiSource || len(patterns) > 1
	v.notEmpty(len(patterns))
	if p.From = chosenSources(known, patterns); len(p.From) == 0 && len(v.r.faults) == 0 && c.Listing == nil {
		v.fault(v.pos(), "%s selects no source", v.what)
	}
}

func sourceNames(c *Config) []string {
	var ns []string
	for _, s := range c.Sources {
		ns = append(ns, s.Name)
	}
	return ns
}
