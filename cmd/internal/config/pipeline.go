package config

import (
	"errors"
	"maps"
	"slices"
	"strings"

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
	Streams     []Ref // patterns: a name, a name with *, or either after !
	Schedule    *Schedule
	Mode        Ref // default: merge
	Schema      Contract
	Mask        []Mask
	MaskKey     wire.Secret // key of the mask hmac
	Changes     bool        // log each changed row in _penstock_changes
	Alerts      *Alerts     // nil: the alerts of the file apply
}

// Ref is a word of the file and its position.
type Ref struct {
	At   Pos
	Text string
}

// Contract says which changes of a table's schema are allowed: new tables, new columns, wider types. For each of
// these three, the stream's setting applies, else the pipeline's, else evolve.
type Contract struct {
	At Pos
	schemas.Contract
}

func readPipeline(e entry, c *Config) Pipeline {
	p := Pipeline{At: e.at, Name: e.key, Mode: Ref{Text: "merge"}}
	e.as("pipeline "+e.key).mapping(fields{
		"from":     func(v value) { p.readFrom(v, c) },
		"to":       func(v value) { p.To = refs(v, "destination", destinationNames(c)) },
		"streams":  func(v value) { p.Streams = patterns(v, c.Streams) },
		"schedule": set(&p.Schedule, readSchedule),
		"mode":     func(v value) { p.Mode.At = v.pos(); choice(&p.Mode.Text, modes...)(v) },
		"schema":   set(&p.Schema, readContract),
		"mask":     func(v value) { p.Mask = masks(v, c.Streams) },
		"mask_key": set(&p.MaskKey, maskKey),
		"changes":  boolean(&p.Changes),
		"alerts":   func(v value) { p.Alerts = readPipelineAlerts(v, c.Alerts) },
	}, "from", "to")
	if p.Streams == nil {
		p.Streams = []Ref{{Text: "*"}}
	}
	return p
}

func sourceNames(c *Config) []string {
	var ns []string
	for _, s := range c.Sources {
		ns = append(ns, s.Name)
	}
	return ns
}

func destinationNames(c *Config) []string {
	var ns []string
	for _, d := range c.Destinations {
		ns = append(ns, d.Name)
	}
	return ns
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

// patterns reports a pattern that matches no stream: it is probably misspelled.
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

func readContract(v value) Contract {
	c := Contract{At: v.pos()}
	part := func(to *schemas.Policy) func(value) {
		return choice(to, "evolve", "freeze", "discard_row", "discard_value")
	}
	v.mapping(fields{"tables": part(&c.Tables), "columns": part(&c.Columns), "types": part(&c.Types)})
	return c
}

// checkCollisions reports pipelines that would write the same table.
func (r *reader) checkCollisions(c *Config) {
	tables := make([]map[string]bool, len(c.Pipelines))
	for i, p := range c.Pipelines {
		streams, err := c.Select(p, nil)
		if err != nil {
			fs, _ := errors.AsType[Faults](err)
			r.faults = append(r.faults, fs...)
			continue
		}
		tables[i] = map[string]bool{}
		for _, s := range streams {
			tables[i][s.Table.Name] = true
		}
		for _, to := range p.To {
			r.collides(c, tables[:i+1], p, to)
		}
	}
}

// collides reports tables of the pipeline p that an earlier pipeline also writes. It compares only tables in the
// destination dest. The slice tables has the table names of each pipeline up to p.
func (r *reader) collides(c *Config, tables []map[string]bool, p Pipeline, dest Ref) {
	d, _ := c.Destination(dest.Text)
	mine := tables[len(tables)-1]
	shared, others := map[string]bool{}, map[string]bool{}
	for i, theirs := range tables[:len(tables)-1] {
		q := c.Pipelines[i]
		same := slices.ContainsFunc(q.To, func(dest Ref) bool {
			other, _ := c.Destination(dest.Text)
			return other.URL == d.URL && other.Schema == d.Schema
		})
		if !same || !c.overlap(d, p, q) {
			continue
		}
		for name := range theirs {
			if mine[name] {
				shared[name], others[q.Name] = true, true
			}
		}
	}
	if len(shared) > 0 {
		r.fault(dest.At, "pipelines %s and %s would both write %s into %s",
			strings.Join(slices.Sorted(maps.Keys(others)), ", "), p.Name, joinFew(slices.Sorted(maps.Keys(shared))), d.Name)
	}
}

func joinFew(all []string) string {
	if len(all) <= 3 {
		return strings.Join(all, ", ")
	}
	return strings.Join(all[:3], ", ") + " and others"
}
