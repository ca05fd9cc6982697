// Package knowledge collects what is known about a stream, from the configuration and from destinations.
package knowledge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
)

// Knowledge is what is known about one stream, and why. Settings in the configuration take precedence over the stored
// convention.
type Knowledge struct {
	Stream   config.Stream
	Learned  extract.Convention // the zero value if nothing is stored
	StoredIn string             // destination that stores the convention
	LastPass history.LastPass   // certificate of the last pass; the zero value if there was none
	Rest     []history.Overflow // members without a column, because of the column limit; one entry per destination
}

// The method effective() returns the stream as a run reads it.
func (k Knowledge) effective() schemas.Stream { return k.Learned.Apply(k.Stream.Stream) }

// Facts returns all known facts: learned, configured, and from the catalogue.
func (k Knowledge) Facts() []extract.Fact {
	facts := slices.Clone(k.Learned.Facts)
	set := func(about, value string, from extract.Provenance) {
		i := slices.IndexFunc(facts, func(f extract.Fact) bool { return f.About == about })
		switch {
		case value == "":
		case i < 0:
			facts = append(facts, extract.Fact{About: about, Value: value, From: from})
		case from != extract.Catalogued && facts[i].From != from:
			if seen := facts[i].Value; seen != "" && seen != value {
				facts[i].Refuted = append(slices.Clone(facts[i].Refuted), "the probes found "+seen+"; the configured value is used")
			}
			facts[i].Value, facts[i].From = value, from
		}
	}
	s := k.Stream
	set(extract.FactRecords, placesOf(s.Records), k.from("records"))
	set(extract.FactKey, strings.Join(s.Key, ", "), k.from("key"))
	set(extract.FactPager, pagerOf(s.Pagination), k.from("pagination"))
	set(extract.FactFilter, filterOf(s.Incremental), k.from("incremental"))
	return facts
}

// The method from() returns the origin of a setting of the stream. If no origin is recorded, the setting comes from the
// catalogue.
func (k Knowledge) from(setting string) extract.Provenance {
	return extract.Provenance(cmp.Or(k.Stream.Stated[setting], string(extract.Catalogued)))
}

// placesOf describes where the records are in a body. An empty JSON pointer is the whole body.
func placesOf(pointers []string) string {
	all := make([]string, len(pointers))
	for i, p := range pointers {
		all[i] = cmp.Or(p, "the whole body")
	}
	return strings.Join(all, " or ")
}

func pagerOf(p schemas.Pagination) string {
	if p.Type == "" || p.Page == "" {
		return p.Type
	}
	return p.Type + " by " + p.Page
}

func filterOf(i schemas.Incremental) string {
	if i.Param == "" {
		return i.Field
	}
	return i.Param + ", by " + i.Field
}

// YAML returns the settings with which the stream is read, as YAML that begins with `streams:`. It repeats the other
// settings of the stream's entry in the configuration unchanged.
func (k Knowledge) YAML() string {
	var b strings.Builder
	fmt.Fprintf(&b, "streams:\n  %s:\n", k.Stream.Name)
	start := len(b.String())
	for _, w := range k.Stream.Settings {
		switch w.Key {
		case "records", "key", "pagination", "context":
		default:
			fmt.Fprintf(&b, "    %s: %s\n", w.Key, w.Value)
		}
	}
	s := k.effective()
	if len(s.Records) > 0 {
		fmt.Fprintf(&b, "    records: %s\n", listOf(s.Records))
	}
	if s.Context != "" {
		fmt.Fprintf(&b, "    context: %s\n", config.Quote(s.Context))
	}
	if len(s.Key) > 0 {
		fmt.Fprintf(&b, "    key: %s\n", listOf(s.Key))
	}
	if slices.Contains(k.Learned.Dropped, extract.HypothesisMonths) && k.Stream.Stated[extract.HypothesisMonths] == "" {
		b.WriteString("    months: none\n")
	}
	if p := pagination(s.Pagination); p != "" {
		fmt.Fprintf(&b, "    pagination: %s\n", p)
	}
	if b.Len() == start {
		b.WriteString("    {} # nothing is known about it yet\n")
	}
	return b.String()
}

func listOf(texts []string) string {
	q := make([]string, len(texts))
	for i, t := range texts {
		q[i] = config.Quote(t)
	}
	return "[" + strings.Join(q, ", ") + "]"
}

// pagination returns p as it is written in the configuration; "" if nothing is known.
func pagination(p schemas.Pagination) string {
	all := []pair{{"type", p.Type}, {"page", p.Page}, {"size", p.Size}, {"order", p.Order}}
	if p.Limit > 0 {
		all = append(all, pair{"limit", strconv.Itoa(p.Limit)})
	}
	if p.Zero {
		all = append(all, pair{"zero", "true"})
	}
	if p.Query {
		all = append(all, pair{"query", "true"})
	}
	if text := flow(all...); text != "{}" {
		return text
	}
	return ""
}

type pair struct{ name, value string }

// flow returns a YAML mapping on one line, without empty values: {type: page, size: limit}.
func flow(pairs ...pair) string {
	var parts []string
	for _, p := range pairs {
		if p.value == "" {
			continue
		}
		value := p.value
		if _, err := strconv.Atoi(value); err != nil && value != "true" {
			value = config.Quote(value)
		}
		parts = append(parts, p.name+": "+value)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// PrintFacts prints each fact with its origin and evidence. Each line begins with the prefix.
func PrintFacts(w io.Writer, prefix string, facts []extract.Fact) {
	for _, f := range facts {
		fmt.Fprintf(w, "%s%-10s %s (%s)\n", prefix, f.About, render.Printable(cmp.Or(f.Value, "unknown"), false), f.From)
		for _, e := range f.Evidence {
			fmt.Fprintf(w, "%s           + %s\n", prefix, render.Printable(e, false))
		}
		for _, r := range f.Refuted {
			fmt.Fprintf(w, "%s           - %s\n", prefix, render.Printable(r, false))
		}
	}
}

// Of collects what is known about a stream. If several destinations store conventions of the stream, it
// uses the newest convention that fits the stream's present settings.
func Of(ctx context.Context, o *open.Opener, c *config.Config, name string) (Knowledge, error) {
	s, ok := c.Stream(name)
	k := Knowledge{Stream: s}
	if !ok || !s.Readable() {
		streams, err := c.Select(config.Pipeline{Name: "explain", From: []config.Ref{{Text: c.Sources[0].Name}}}, []string{name})
		if err != nil {
			return k, err
		}
		return k, failure.Usage("`penstock streams` lists them", "%q matches %s; name one of them", name, render.Plural(len(streams), "stream"))
	}
	for _, p := range c.Pipelines {
		carried, err := c.Select(p, []string{name})
		if err != nil || len(carried) != 1 {
			continue
		}
		o.LimitColumns(c, p, carried)
		for _, to := range p.To {
			d, _ := c.Destination(to.Text)
			if len(p.From) > 0 {
				d = d.For(p.From[0].Text) // only the part of the first source is read
			}
			m, last, rest, err := storedKnowledge(ctx, o, c, d, p.Name, k.Stream.Table)
			if err != nil {
				o.Log.Warn("cannot read the conventions of a destination; it is skipped", "destination", d.Name, "error", err)
				continue
			}
			if rest.Records > 0 {
				rest.Limited = carried[0].Stream
				k.Rest = append(k.Rest, rest)
			}
			if w := last[name]; w.Run > k.LastPass.Run {
				k.LastPass = w
			}
			if found := m[name].Convention; found.Fits(k.Stream.Stream) && found.LearnedAt.After(k.Learned.LearnedAt) {
				k.Learned, k.StoredIn = found, d.Name
			}
		}
	}
	return k, nil
}

// storedKnowledge returns what a destination stores about the streams of a pipeline: their conventions and their newest
// certificates. It also counts the members that have no column in table t because of the column limit. If the
// destination does not exist yet, storedKnowledge returns nothing.
func storedKnowledge(ctx context.Context, o *open.Opener, c *config.Config, d config.Destination, of string, t schemas.Table) (pipeline.Memories, map[string]history.LastPass, history.Overflow, error) {
	p, err := o.Kinds.Of(c, d)
	if err != nil {
		return nil, nil, history.Overflow{}, err
	}
	if p.Absent != nil && p.Absent(d) != nil {
		return nil, nil, history.Overflow{}, nil
	}
	dest, err := o.Destination(ctx, c, d)
	if err != nil {
		return nil, nil, history.Overflow{}, err
	}
	m, err := pipeline.Recall(ctx, dest, of)
	last, err2 := history.LastPasses(ctx, dest, of)
	since, err3 := history.Overflows(ctx, dest)
	var rest history.Overflow
	if at, ok := since[t.Name]; ok && err3 == nil {
		rest, err3 = history.ReadOverflow(ctx, dest, d.Name, t, at)
	}
	return m, last, rest, errors.Join(err, err2, err3, dest.Close())
}
