package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
)

// knowledge is what is known about one stream, and why. Settings in the configuration take precedence over the stored
// convention.
type knowledge struct {
	stream  config.Stream
	learned extract.Convention // the zero value if nothing is stored
	kept    string             // destination that stores the convention
	proved  history.LastPass   // certificate of the last pass; the zero value if there was none
	rest    []history.Overflow // members without a column, because of the column limit; one entry per destination
}

// effective returns the stream as a run reads it.
func (k knowledge) effective() schemas.Stream { return k.learned.Apply(k.stream.Stream) }

// facts returns all known facts: learned, configured, and from the catalogue.
func (k knowledge) facts() []extract.Fact {
	facts := slices.Clone(k.learned.Facts)
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
	s := k.stream
	set(extract.FactRecords, placesOf(s.Records), k.from("records"))
	set(extract.FactKey, strings.Join(s.Key, ", "), k.from("key"))
	set(extract.FactPager, pagerOf(s.Pagination), k.from("pagination"))
	set(extract.FactFilter, filterOf(s.Incremental), k.from("incremental"))
	return facts
}

// from returns where a setting of the stream comes from. If nothing is recorded, it comes from the catalogue.
func (k knowledge) from(setting string) extract.Provenance {
	return extract.Provenance(cmp.Or(k.stream.Stated[setting], string(extract.Catalogued)))
}

// placesOf formats the JSON pointers that say where the records are in a body. An empty pointer is the whole body.
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

// yaml returns the settings with which the stream is read, as YAML that begins with `streams:`. It repeats the other
// settings of the stream's entry in the configuration unchanged.
func (k knowledge) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "streams:\n  %s:\n", k.stream.Name)
	start := len(b.String())
	for _, w := range k.stream.Settings {
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
	if slices.Contains(k.learned.Dropped, extract.HypothesisMonths) && k.stream.Stated[extract.HypothesisMonths] == "" {
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

// pagination formats p as it is written in the configuration; "" if nothing is known.
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

// flow formats a YAML mapping on one line, without empty values: {type: page, size: limit}.
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

// printFacts prints each fact with its origin and evidence, with prefix before each line.
func printFacts(w io.Writer, prefix string, facts []extract.Fact) {
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
