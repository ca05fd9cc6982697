package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

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

func (r *reader) pipelines(n ast.Node, c *Config) []Pipeline {
	return namedEntries(r, n, "pipelines", func(e entry) Pipeline {
		p := Pipeline{At: e.at, Name: e.key, Mode: Ref{Text: "merge"}}
		what := "pipeline " + e.key
		ok := r.mapping(e.value, what, fields{
			"from":     func(n ast.Node) { r.readsFrom(&p, n, what+" from", c) },
			"to":       func(n ast.Node) { p.To = r.refs(n, what+" to", "destination", destinationNames(c)) },
			"streams":  func(n ast.Node) { p.Streams = r.patterns(n, what+" streams", c.Streams) },
			"schedule": func(n ast.Node) { p.Schedule = r.schedule(n, what+" schedule") },
			"mode":     func(n ast.Node) { p.Mode = Ref{posOf(n), r.choice(n, what+" mode", modes...)} },
			"schema":   func(n ast.Node) { p.Schema = r.contract(n, what+" schema") },
			"mask":     func(n ast.Node) { p.Mask = r.masks(n, what+" mask", c.Streams) },
			"mask_key": func(n ast.Node) { p.MaskKey = r.maskKey(n, what+" mask_key") },
			"changes":  func(n ast.Node) { p.Changes = r.boolean(n, what+" changes") },
			"alerts":   func(n ast.Node) { p.Alerts = r.pipelineAlerts(n, what+" alerts", c.Alerts) },
		})
		if ok {
			r.require(e.value, what, "from", "to")
		}
		if p.Streams == nil {
			p.Streams = []Ref{{Text: "*"}}
		}
		return p
	})
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

func (r *reader) refs(n ast.Node, what, kind string, known []string) []Ref {
	var all []Ref
	for _, s := range r.texts(n, what) {
		switch {
		case !slices.Contains(known, s.value):
			r.fault(s.at, "%s: no %s %q%s", what, kind, s.raw, suggestion(s.raw, known))
		case slices.ContainsFunc(all, func(o Ref) bool { return o.Text == s.value }):
			r.fault(s.at, "%s names %q twice", what, s.raw)
		default:
			all = append(all, Ref{s.at, s.value})
		}
	}
	if all == nil && len(r.faults) == 0 {
		r.fault(posOf(n), "%s is empty", what)
	}
	return all
}

// patterns reports a pattern that matches no stream: it is probably misspelled.
func (r *reader) patterns(n ast.Node, what string, all []Stream) []Ref {
	refs := []Ref{}
	for _, s := range r.texts(n, what) {
		if bad := badPattern(s.value, all); bad != "" {
			r.fault(s.at, "%s: %s", what, bad)
			continue
		}
		refs = append(refs, Ref{s.at, s.value})
	}
	return refs
}

func (r *reader) contract(n ast.Node, what string) Contract {
	c := Contract{At: posOf(n)}
	part := func(to *schemas.Policy, key string) func(ast.Node) {
		return func(n ast.Node) {
			*to = schemas.Policy(r.choice(n, what+" "+key, "evolve", "freeze", "discard_row", "discard_value"))
		}
	}
	r.mapping(n, what, fields{
		"tables":  part(&c.Tables, "tables"),
		"columns": part(&c.Columns, "columns"),
		"types":   part(&c.Types, "types"),
	})
	return c
}

// collisions reports pipelines that would write the same table.
func (r *reader) collisions(c *Config) {
	tables := make([]map[string]bool, len(c.Pipelines))
	for i, p := range c.Pipelines {
		streams, err := c.Select(p, nil)
		if err != nil {
			r.selectionFaults(err)
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
