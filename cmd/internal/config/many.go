package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/wire"
)

// ofSource is a placeholder in the URL or schema of a destination. The name of a source replaces it.
const ofSource = "{source}"

// ForSource returns a copy of the pipeline that reads only one source.
func (p Pipeline) ForSource(source string) Pipeline {
	i := slices.IndexFunc(p.From, func(r Ref) bool { return r.Text == source })
	if i < 0 {
		p.From = []Ref{{At: p.At, Text: source}}
		return p
	}
	p.From = p.From[i : i+1 : i+1]
	return p
}

// Reads reports whether the pipeline reads the named source.
func (p Pipeline) Reads(source string) bool {
	return slices.ContainsFunc(p.From, func(r Ref) bool { return r.Text == source })
}

// Key returns the name of the lock that a process holds while it runs the pipeline. A pipeline from
// [Pipeline.ForSource] has a lock of its own for each source.
func (p Pipeline) Key() string {
	if !p.MultiSource || len(p.From) != 1 {
		return p.Name
	}
	return p.Name + "@" + p.From[0].Text
}

// PerSource reports whether each source has its own tables in d, because {source} is in the URL or the schema.
func (d Destination) PerSource() bool {
	return strings.Contains(d.URL.Reveal(), ofSource) || strings.Contains(d.Schema, ofSource)
}

// For returns a copy of d in which the source's name replaces {source}.
func (d Destination) For(source string) Destination {
	of := strings.NewReplacer(ofSource, source)
	d.URL, d.Shown = wire.Secret(of.Replace(d.URL.Reveal())), of.Replace(d.Shown)
	d.Schema, d.Publish, d.Files = of.Replace(d.Schema), of.Replace(d.Publish), of.Replace(d.Files)
	return d
}

// Shared reports whether several sources share the tables of the destination d. This is true if neither the URL nor the
// schema of d contains {source}, and a pipeline that can read several sources loads into d. The parameter d may come
// from [Destination.For].
func (c *Config) Shared(d Destination) bool {
	d, _ = c.Destination(d.Name)
	return !d.PerSource() && slices.ContainsFunc(c.Pipelines, func(p Pipeline) bool {
		return p.MultiSource && slices.ContainsFunc(p.To, func(to Ref) bool { return to.Text == d.Name })
	})
}

// SourcesOf returns the names of the sources that pipelines load into a destination.
func (c *Config) SourcesOf(d Destination) (names []string) {
	seen := map[string]bool{}
	for _, p := range c.Pipelines {
		if !slices.ContainsFunc(p.To, func(to Ref) bool { return to.Text == d.Name }) {
			continue
		}
		for _, from := range p.From {
			if !seen[from.Text] {
				names = append(names, from.Text)
			}
			seen[from.Text] = true
		}
	}
	return names
}

// overlap reports whether two pipelines could write the same tables in the destination d.
func (c *Config) overlap(d Destination, p, q Pipeline) bool {
	if !d.PerSource() && !c.Shared(d) {
		return true
	}
	return slices.ContainsFunc(p.From, func(a Ref) bool {
		return slices.ContainsFunc(q.From, func(b Ref) bool { return a.Text == b.Text })
	})
}

// Pick returns the sources of the pipeline p that match the names and patterns in selection. If selection is empty,
// Pick returns all sources of p.
func (c *Config) Pick(p Pipeline, selection []string) ([]Ref, error) {
	if len(selection) == 0 {
		return p.From, nil
	}
	var names []string
	for _, from := range p.From {
		names = append(names, from.Text)
	}
	refs := make([]Ref, len(selection))
	for i, text := range selection {
		refs[i] = Ref{Text: text}
		if !strings.HasPrefix(text, "!") && len(chosenSources(names, refs[i:i+1])) == 0 {
			message := fmt.Sprintf("no source %q%s", text, DidYouMean(text, names))
			if p.Name != "" {
				message = "pipeline " + p.Name + " reads " + message
			}
			return nil, Faults{{File: c.File, Message: message}}
		}
	}
	return chosenSources(names, refs), nil
}

// countTogether sets the field Together of each destination. URLs that differ only in their options count as the same
// server.
func (c *Config) countTogether() {
	server := func(d Destination) string {
		at, _, _ := strings.Cut(d.URL.Reveal(), "?")
		return at
	}
	for i := range c.Destinations {
		d := &c.Destinations[i]
		for _, p := range c.Pipelines {
			number, writes := 0, false
			for _, to := range p.To {
				other, _ := c.Destination(to.Text)
				writes = writes || other.Name == d.Name
				if server(other) == server(*d) {
					number++
				}
			}
			if writes {
				d.Together = max(d.Together, number)
			}
		}
	}
}
