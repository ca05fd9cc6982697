package config

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/extract/wire"
)

// Listing is `sources: {from: …}`: a list of further sources in a file, in the result of a query, or in the output
// of a command. The template makes a source of each row of the list. Exactly one of File, Query and Command is set.
type Listing struct {
	At          Pos
	File        string      // path of a .csv, .yaml or .json file
	Query       string      // a SELECT
	To          Ref         // the name of Destination in the file
	Destination Destination // where Query runs, unless URL is set
	URL         wire.Secret // the Postgres database where Query runs
	Command     []string    // program and arguments, run without a shell
	Timeout     time.Duration

	Name   string   // the field of a row that has the name of the source
	Unread bool     // the command was not run, because the verb needs no sources
	Hosts  []string // patterns of allowed hosts; nil: every host that the template allows
	Secret []string // fields of a row whose values are secrets
}

// Row is one row of a listing.
type Row struct {
	File   string // the file that has the row; "" for a query or command
	Line   int
	Fields map[string]string
}

// ErrUnread is returned by [Input.Rows] if the verb does not need the list. Parse then leaves out the sources of
// the list, without an error.
var ErrUnread = errors.New("the list of sources is not read")

// DefaultListingTimeout is the default time limit of a query or a command.
const DefaultListingTimeout = 30 * time.Second

// mostSources is the largest number of rows in a list. // Invariant 15
const mostSources = 100_000

func (r *reader) sources(n ast.Node, c *Config) []Source {
	var template ast.Node
	var all []Source
	es, ok := r.entries(n, "sources")
	r.observe(n, sighting{fixedKeys: []string{"from", "template"}})
	if ok && len(es) == 0 {
		r.fault(posOf(n), "sources is empty")
	}
	for _, e := range es {
		switch {
		case e.key == "from":
			c.Listing = r.listing(e.value, c)
		case e.key == "template":
			template = e.value
		case !isName(e.key):
			r.fault(e.at, "sources: %q is not a valid name; want letters, digits, - and _", e.key)
		default:
			all = append(all, r.source(e))
		}
	}
	if r.observer != nil && template != nil {
		// The JSON Schema is made without rows. It describes the template as a source.
		r.source(entry{key: "template", at: posOf(template), value: template})
	}
	switch l := c.Listing; {
	case l == nil && template == nil:
	case l == nil:
		r.fault(posOf(template), "sources: template needs from, which lists the sources")
	case template == nil:
		r.fault(l.At, "sources: from needs a template, from which each source is made")
	case len(r.faults) == 0:
		all = append(all, r.listed(l, template, all)...)
	}
	r.checkCase(all)
	return all
}

func (r *reader) source(e entry) Source {
	s := Source{At: e.at, Name: e.key}
	what := "source " + e.key
	ok := r.mapping(e.value, what, fields{
		"v2":       func(n ast.Node) { s.V2 = r.surface(n, what+" v2", "api_key", "oauth") },
		"app":      func(n ast.Node) { s.App = r.surface(n, what+" app", "token", "login", "oauth") },
		"webhooks": func(n ast.Node) { s.Webhooks = r.webhooks(n, what+" webhooks") },
	})
	if ok && s.V2 == nil && s.App == nil {
		r.fault(e.at, "%s has neither v2 nor app", what)
	}
	return s
}

func (r *reader) listing(n ast.Node, c *Config) *Listing {
	const what = "sources from"
	l := &Listing{At: posOf(n), Name: "name", Timeout: DefaultListingTimeout}
	word := func(to *string, key string) func(ast.Node) {
		return func(n ast.Node) {
			if s, ok := r.text(n, what+" "+key); ok {
				*to = s.value
			}
		}
	}
	ways := 0
	way := func(read func(ast.Node)) func(ast.Node) { return func(n ast.Node) { ways++; read(n) } }
	ok := r.mapping(n, what, fields{
		"file":  way(word(&l.File, "file")),
		"query": way(word(&l.Query, "query")),
		"command": way(func(n ast.Node) {
			for _, s := range r.texts(n, what+" command") {
				l.Command = append(l.Command, s.value)
			}
		}),
		"of":      func(n ast.Node) { r.listingOf(l, n, what+" of", c) },
		"timeout": func(n ast.Node) { l.Timeout = r.listingTimeout(n, what+" timeout") },
		"name":    word(&l.Name, "name"),
		"hosts":   func(n ast.Node) { l.Hosts = r.listingHosts(n, what+" hosts") },
		"secret": func(n ast.Node) {
			for _, s := range r.texts(n, what+" secret") {
				l.Secret = append(l.Secret, s.value)
			}
		},
	})
	switch {
	case !ok:
	case ways != 1:
		r.fault(l.At, "%s holds %d lists; want one of file, query or command", what, ways)
	case l.Query != "" && l.To.Text == "" && l.URL == "":
		r.fault(l.At, "%s: a query needs `of`: a destination, or the URL of a database", what)
	case l.Query == "" && (l.To.Text != "" || l.URL != ""):
		r.fault(l.At, "%s: `of` is only for a query", what)
	}
	return l
}

func (r *reader) listingTimeout(n ast.Node, what string) time.Duration {
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s.value)
	if err != nil || d < time.Second || d > 10*time.Minute {
		r.fault(s.at, "%s %q: want from 1s to 10m", what, s.raw)
	}
	return d
}

func (r *reader) listingOf(l *Listing, n ast.Node, what string, c *Config) {
	s, ok := r.text(n, what)
	switch {
	case !ok:
	case strings.HasPrefix(s.value, "postgres:") || strings.HasPrefix(s.value, "postgresql:"):
		l.URL = wire.Secret(s.value)
		r.secrets = append(r.secrets, l.URL)
	case slices.Contains(destinationNames(c), s.value):
		l.To = Ref{s.at, s.value}
		l.Destination, _ = c.Destination(s.value)
	default:
		r.fault(s.at, "%s: no destination %q%s", what, s.raw, suggestion(s.raw, destinationNames(c)))
	}
}

// listed makes a source of each row of a list.
func (r *reader) listed(l *Listing, template ast.Node, before []Source) []Source {
	if r.Rows == nil {
		return nil
	}
	rows, err := r.Rows(*l)
	if errors.Is(err, ErrUnread) {
		l.Unread = true
		return nil
	}
	if err != nil {
		r.fault(l.At, "sources from: %v", err)
		return nil
	}
	if len(rows) > mostSources {
		r.fault(l.At, "sources from: more than %d", mostSources)
		return nil
	}
	taken := map[string]bool{}
	for _, s := range before {
		taken[s.Name] = true
	}
	var all []Source
	for _, row := range rows {
		name := row.Fields[l.Name]
		switch {
		case !isName(name):
			r.rowFault(row, "%q is not a valid source name; want a letter, then letters, digits, - and _ in the field %s", name, l.Name)
			continue
		case taken[name]:
			r.rowFault(row, "source %s is listed twice", name)
			continue
		}
		taken[name] = true
		all = append(all, r.fromRow(l, row, template))
	}
	return all
}

func (r *reader) rowFault(row Row, format string, args ...any) {
	at := len(r.faults)
	r.fault(Pos{Line: row.Line}, "sources from: "+format, args...)
	if row.File != "" {
		r.faults[at].File = row.File
	}
}

// fromRow makes a source of a row. Errors in the source are stored in Source.Faults, so that the other sources can
// still be read.
func (r *reader) fromRow(l *Listing, row Row, template ast.Node) Source {
	for _, field := range l.Secret {
		if v := row.Fields[field]; v != "" {
			r.secrets = append(r.secrets, wire.Secret(v)) // Invariant 5
		}
	}
	told, visited := len(r.faults), r.visited
	r.row, r.rowOf, r.rowName = &row, l, row.Fields[l.Name]
	s := r.source(entry{key: r.rowName, at: posOf(template), value: template})
	r.row, r.rowOf, r.rowName = nil, nil, ""
	r.visited = visited // the template does not count against maxNodes for each source
	if len(r.faults) > told {
		s.Faults = slices.Clone(r.faults[told:])
		r.faults = r.faults[:told]
	}
	return s
}

// templateWord matches $${, a reference ${…} (which may contain {name}), or a field {…}.
var templateWord = regexp.MustCompile(`\$\$\{|\$\{(?:[^{}]|\{name\})*\}|\{[^{}]*\}`)

// fill replaces {field} by the value of that field in the current row, and expands ${…}. Inside a reference, such as
// ${KEY_{name}}, it replaces only {name}, because the names of sources have no special characters. If a value of
// the row contains ${…}, that text stays as it is.
func (r *reader) fill(raw string, at Pos) (string, bool) {
	if r.row == nil {
		return r.expand(raw, at)
	}
	var b, own strings.Builder
	all := true
	put := func(text string, ok bool) {
		b.WriteString(text)
		all = all && ok
	}
	from := 0
	for _, m := range templateWord.FindAllStringIndex(raw, -1) {
		word := raw[m[0]:m[1]]
		own.WriteString(raw[from:m[0]])
		from = m[1]
		if strings.HasPrefix(word, "$") {
			own.WriteString(strings.ReplaceAll(word, "{name}", r.rowName))
			continue
		}
		put(r.expand(own.String(), at))
		own.Reset()
		field := word[1 : len(word)-1]
		value, ok := r.field(field, at)
		put(value, ok && (r.urlName == "" || r.fitsURL(field, value, b.String(), raw[from:])))
	}
	put(r.expand(own.String()+raw[from:], at))
	return b.String(), all
}

func (r *reader) field(name string, at Pos) (string, bool) {
	if name == "name" {
		return r.rowName, true
	}
	value, ok := r.row.Fields[name]
	if !ok {
		r.fault(at, "the row of source %s has no field {%s}", r.rowName, name)
	}
	return value, ok
}
