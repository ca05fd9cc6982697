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

// Listing says where further sources of a configuration are listed: in a file, in the result of a
// query, or in the output of a command. One source is made from the template for each row. Exactly one
// of File, Query and Command is set.
type Listing struct {
	At          Pos
	File        string      // path of a .csv, .yaml or .json file
	Query       string      // a SELECT, which runs in Destination or in the database at URL
	To          Ref         // the name of Destination in the file
	Destination Destination // the destination in which Query runs
	URL         wire.Secret // the database in which Query runs, if it does not run in a destination
	Command     []string    // program and arguments, run without a shell
	Timeout     time.Duration

	Name   string   // the field of a row that has the name of the source
	Unread bool     // the command was not run, because the verb needs no sources
	Hosts  []string // patterns of allowed hosts; nil: any that the template allows
	Secret []string // fields whose values are never shown
}

// Row is one row of a listing.
type Row struct {
	File   string // file of the row; "" for a query or command
	Line   int
	Fields map[string]string
}

// ErrUnread is the error of [Input.Rows] for a list that the verb does not need. The sources of the
// list are then missing from the configuration, which is not a fault.
var ErrUnread = errors.New("the list of sources is not read")

// DefaultListingTimeout is the default time limit of a query or a command.
const DefaultListingTimeout = 30 * time.Second

// mostSources limits one listing. // Invariant 15
const mostSources = 100_000

func (r *reader) sources(n ast.Node, c *Config) []Source {
	var template ast.Node
	var all []Source
	es, ok := r.entries(n, "sources")
	r.observe(n, sighting{beside: []string{"from", "template"}})
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
		r.source(entry{key: "template", at: posOf(template), value: template}) // without rows, the schema describes the template as a source
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

// listed stores the faults of a source in the source, so that they do not affect other sources.
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
	r.visited = visited // count the template once, however many sources it makes
	if len(r.faults) > told {
		s.Faults = slices.Clone(r.faults[told:])
		r.faults = r.faults[:told]
	}
	return s
}

var templateWord = regexp.MustCompile(`\$\$\{|\$\{(?:[^{}]|\{name\})*\}|\{[^{}]*\}`)

// fill replaces {field} by the field of the current row. Inside a reference, such as ${KEY_{name}}, it
// replaces only {name}, because names have no special characters. References in values of a row are not
// expanded.
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
