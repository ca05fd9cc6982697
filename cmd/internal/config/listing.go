package config

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/wire"
)

// Listing is `sources: {from: …}`. It describes a list of further sources: a file, the result of a query, or the output
// of a command. Each row of the list becomes one source: its fields are filled into the template. Exactly one of File,
// Query and Command is set.
type Listing struct {
	At          Pos
	File        string      // path of a .csv, .yaml or .json file
	Query       string      // a SELECT
	To          Ref         // the name of Destination, as written in the file
	Destination Destination // where Query runs, unless URL is set
	URL         wire.Secret // the Postgres database where Query runs
	Command     []string    // program and arguments, run without a shell
	Timeout     time.Duration

	Name   string   // the field of a row that has the name of the source
	Unread bool     // the list was not read, because the current command of penstock needs no sources
	Hosts  []string // patterns of allowed hosts; nil: every host that the template allows
	Secret []string // fields of a row whose values are secrets
}

// ErrUnread is returned by [Input.Rows] if the current command of penstock does not need the list. Then Parse leaves
// out the sources of the list and reports no error.
var ErrUnread = errors.New("the list of sources is not read")

// DefaultListingTimeout is the default time limit of a query or a command.
const DefaultListingTimeout = 30 * time.Second

// mostSources is the greatest number of rows in a list. // Invariant 15
const mostSources = 100_000

func readSources(v value, destinations []Destination) (all []Source, l *Listing) {
	var template value
	es, ok := v.entries()
	v.observe(sighting{fixedKeys: []string{"from", "template"}})
	if ok && len(es) == 0 {
		v.fault(v.pos(), "sources is empty")
	}
	for _, e := range es {
		switch {
		case e.key == "from":
			l = readListing(e.value, destinations)
		case e.key == "template":
			template = e.value
		case !IsName(e.key):
			v.fault(e.at, "sources: %q is not a valid name; want letters, digits, - and _", e.key)
		default:
			all = append(all, readSource(e))
		}
	}
	if v.r.observer != nil && template.given() {
		// The JSON Schema is made without rows. So read the template here in the same way as a source.
		readSource(entry{"template", template.pos(), template})
	}
	switch {
	case l == nil && !template.given():
	case l == nil:
		v.fault(template.pos(), "sources: `template` needs `from`, which lists the sources")
	case !template.given():
		v.fault(l.At, "sources: `from` needs a `template`, which describes the source of each row")
	case len(v.r.faults) == 0:
		all = append(all, l.read(template, all)...)
	}
	v.r.checkCase(all)
	return all, l
}

func readListing(v value, destinations []Destination) *Listing {
	l := &Listing{At: v.pos(), Name: "name", Timeout: DefaultListingTimeout}
	ways, left := 0, v.r.left
	way := func(read func(value)) func(value) { return func(v value) { ways++; read(v) } }
	ok := v.mapping(fields{
		"file":    way(text(&l.File)),
		"query":   way(text(&l.Query)),
		"command": way(set(&l.Command, value.words)),
		"of":      func(v value) { l.readOf(v, destinations) },
		"timeout": duration(&l.Timeout, time.Second, 10*time.Minute, "from 1s to 10m"),
		"name":    text(&l.Name),
		"hosts":   set(&l.Hosts, listingHosts),
		"secret":  set(&l.Secret, value.words),
	})
	switch {
	case v.r.left > left:
		l.Unread = true
	case !ok:
	case ways != 1:
		v.fault(l.At, "%s holds %d lists; want one of file, query or command", v.what, ways)
	case l.Query != "" && l.To.Text == "" && l.URL == "":
		v.fault(l.At, "%s: a query needs `of`: a destination, or the URL of a database", v.what)
	case l.Query == "" && (l.To.Text != "" || l.URL != ""):
		v.fault(l.At, "%s: `of` is only for a query", v.what)
	}
	return l
}

func (l *Listing) readOf(v value, destinations []Destination) {
	s, ok := v.text()
	switch d, known := find(destinations, func(d Destination) bool { return d.Name == s.value }); {
	case !ok:
	case strings.HasPrefix(s.value, "postgres:") || strings.HasPrefix(s.value, "postgresql:"):
		l.URL = wire.Secret(s.value)
		v.r.secrets = append(v.r.secrets, l.URL)
	case known:
		l.To, l.Destination = Ref{s.at, s.value}, d
	default:
		v.fault(s.at, "%s: no destination %q%s", v.what, s.raw, suggestion(s.raw, destinationNames(destinations)))
	}
}

// read makes a source from each row of the list. The argument `before` has the sources that the file itself contains. A
// row must not repeat one of their names.
func (l *Listing) read(template value, before []Source) []Source {
	r := template.r
	if r.Rows == nil || l.Unread {
		return nil
	}
	rows, err := r.Rows(*l)
	switch {
	case errors.Is(err, ErrUnread):
		l.Unread = true
		return nil
	case err != nil:
		r.fault(l.At, "sources from: %v", err)
		return nil
	case len(rows) > mostSources:
		r.fault(l.At, "sources from: the list has more than %d rows", mostSources)
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
		case !IsName(name):
			r.rowFault(row, "%q is not a valid source name; want a letter, then letters, digits, - and _ in the field %s", name, l.Name)
			continue
		case taken[name]:
			r.rowFault(row, "source %s is listed twice", name)
			continue
		}
		taken[name] = true
		all = append(all, l.fromRow(row, template))
	}
	return all
}

// fromRow makes a source from a row. It stores errors of this source in Source.Faults, so that the other sources can
// still be read.
func (l *Listing) fromRow(row Row, template value) Source {
	r := template.r
	for _, field := range l.Secret {
		if v := row.Fields[field]; v != "" {
			r.secrets = append(r.secrets, wire.Secret(v)) // Invariant 5
		}
	}
	before, visited := len(r.faults), r.visited
	template.row = &listedRow{row, row.Fields[l.Name], l.Hosts}
	s := readSource(entry{template.row.name, template.pos(), template})
	r.visited = visited // count the template only once against maxNodes, and not again for each source
	if len(r.faults) > before {
		s.Faults = slices.Clone(r.faults[before:])
		r.faults = r.faults[:before]
	}
	return s
}

var hostPattern = regexp.MustCompile(`^(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*$`)

func listingHosts(v value) []string {
	hosts := []string{}
	for _, s := range v.texts() {
		pattern := strings.ToLower(s.value)
		if !hostPattern.MatchString(pattern) {
			v.fault(s.at, "%s %q: want the name of a host, or *.example.com for all hosts below it, without scheme, port and path", v.what, s.raw)
			continue
		}
		hosts = append(hosts, pattern)
	}
	return hosts
}
