// Package config turns pipelines.yaml into values. It is pure: bytes, two
// look-up functions and the catalogue go in; a [Config], or every fault of the
// file with its line and column, comes out. It opens nothing, dials nothing and
// knows no driver; begin with [Parse], then ask [Config.Select] for the streams
// of a pipeline.
package config

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// Input is what Parse needs besides the file's bytes.
type Input struct {
	File      string                              // name of the file, for messages
	Env       func(name string) (string, bool)    // os.LookupEnv, or a test's
	Read      func(path string) (string, error)   // content of a ${file:…}
	Run       func(argv []string) (string, error) // what the command of a ${cmd:…} prints
	Places    bool                                // only destinations and state are wanted: commands for other secrets are not run
	Rows      func(Listing) ([]Row, error)        // what a listing lists; nil: no source is made of it
	Catalogue []schemas.Stream                    // every endpoint, writes too
	Schemes   []string                            // of the destinations' URLs
}

// Config is a configuration without a fault. Whoever holds it does not change
// it.
type Config struct {
	File         string
	Version      int
	Sources      []Source      // in the file's order, as are the others; those of Listing last
	Listing      *Listing      // nil: all of them stand in the file
	Destinations []Destination // ditto
	Pipelines    []Pipeline    // ditto
	Streams      []Stream      // the catalogue, overridden, then the file's own
	Serve        Serve
	Alerts       Alerts
	State        State
	Secrets      []wire.Secret // every credential of the file: none may be seen

	presets *schemas.Presets
}

// Default values of what a file leaves out.
const (
	DefaultState  = ".penstock"
	DefaultListen = "127.0.0.1:8080"
)

// State is where caches, locks and the inbox are kept.
type State struct {
	At  Pos
	Dir string      // a directory; "" where URL is set
	URL wire.Secret // a postgres:// database that several workers share

	Key     wire.Secret // age identities, one a line, that tokens in a database are encrypted with
	Keyring bool        // tokens are kept in the keyring of the operating system
}

// Serve is how the daemon listens.
type Serve struct {
	At     Pos
	Listen string
	Hosts  []string     // names that browsers know it by, besides those of this machine
	Tokens []ServeToken // that open the dashboard, its API and the metrics; none: whoever is on this machine
	TLS    *ServeTLS    // nil: without

	OTLP        *Collector // where traces go; nil: as the environment says, or nowhere
	OpenLineage *Collector // where run events go; nil: nowhere
}

// ServeToken opens the dashboard and its API, or only the metrics.
type ServeToken struct {
	Name   string // for the log; unique
	Secret wire.Secret
	Role   string // one of ServeRoles
}

// ServeRoles are what the holder of a token may do; each includes those before it.
func ServeRoles() []string { return []string{"metrics", "read", "operate"} }

// Parse reads a whole configuration. Its error is [Faults], unless the program
// itself is broken.
func Parse(data []byte, in Input) (*Config, error) {
	r := &reader{Input: in, commands: &commands{run: in.Run}}
	if in.Run != nil {
		r.Run = r.commands.once
	}
	c := &Config{File: in.File, State: State{Dir: DefaultState}, Serve: Serve{Listen: DefaultListen}}
	var err error
	if c.presets, err = schemas.LoadPresets(); err != nil {
		return nil, fmt.Errorf("parse %s: %w", in.File, err)
	}
	if root := r.document(data); root != nil {
		r.root(c, root)
	}
	if len(r.faults) > 0 {
		return nil, r.faults.sorted()
	}
	c.Secrets = r.secrets
	return c, nil
}

// root reads the sources before the streams, these before the pipelines, and all after what they name,
// wherever they stand in the file.
func (r *reader) root(c *Config, root ast.Node) {
	later := map[string]ast.Node{}
	keep := func(key string) func(ast.Node) { return func(n ast.Node) { later[key] = n } }
	complete := r.mapping(root, "the configuration", fields{
		"version":      func(n ast.Node) { c.Version = r.number(n, "version", 1, 1) },
		"sources":      keep("sources"),
		"destinations": func(n ast.Node) { r.place = true; c.Destinations = r.destinations(n); r.place = false },
		"pipelines":    keep("pipelines"),
		"streams":      keep("streams"),
		"max_columns":  func(n ast.Node) { r.maxColumns = r.number(n, "max_columns", 1, maxColumns) },
		"max_tables":   func(n ast.Node) { r.maxTables = r.number(n, "max_tables", 1, maxTables) },
		"serve":        func(n ast.Node) { c.Serve = r.serve(n) },
		"state":        func(n ast.Node) { r.place = true; c.State = r.state(n); r.place = false },
		"alerts":       func(n ast.Node) { c.Alerts = r.alerts(n) },
	})
	if c.State.At == (Pos{}) { // no state: in the file
		c.State = r.stateKey(c.State, "")
	}
	if n := later["sources"]; n != nil {
		c.Sources = r.sources(n, c)
	}
	c.Streams = r.streams(later["streams"], c.Sources)
	if n := later["pipelines"]; n != nil {
		c.Pipelines = r.pipelines(n, c)
	}
	if complete {
		r.require(root, "the configuration", "version", "sources", "destinations", "pipelines")
	}
	if len(r.faults) == 0 {
		r.collisions(c)
		r.placed(c)
		r.unread(c)
	}
}

// Fault makes an error that points at p in the file.
func (c *Config) Fault(p Pos, message string) error {
	return Faults{{File: c.File, Pos: p, Message: message}}
}

// Source is the source named name.
func (c *Config) Source(name string) (Source, bool) {
	return find(c.Sources, func(s Source) bool { return s.Name == name })
}

// MayRead reports whether there is a source of this name, or may be one because the list of
// sources was not read.
func (c *Config) MayRead(source string) bool {
	_, known := c.Source(source)
	return known || c.Listing != nil && c.Listing.Unread && isName(source)
}

// Destination is the destination named name.
func (c *Config) Destination(name string) (Destination, bool) {
	return find(c.Destinations, func(d Destination) bool { return d.Name == name })
}

// Pipeline is the pipeline named name.
func (c *Config) Pipeline(name string) (Pipeline, bool) {
	return find(c.Pipelines, func(p Pipeline) bool { return p.Name == name })
}

func find[T any](all []T, is func(T) bool) (T, bool) {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], true
	}
	var none T
	return none, false
}

// named reads a mapping whose keys are names of the user's choice.
func named[T any](r *reader, n ast.Node, what string, read func(entry) T) []T {
	es, ok := r.entries(n, what)
	if ok && len(es) == 0 {
		r.fault(posOf(n), "%s is empty", what)
	}
	var all []T
	for _, e := range es {
		if !isName(e.key) {
			r.fault(e.at, "%s: %q is no name; want letters, digits, - and _", what, e.key)
			continue
		}
		all = append(all, read(e))
	}
	return all
}

// IsName reports whether a source, destination or pipeline may be called so.
func IsName(s string) bool { return isName(s) }

func isName(s string) bool {
	for i, c := range s {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c != '-' && c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != "" && len(s) <= 63
}
