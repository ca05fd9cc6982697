// Package config parses pipelines.yaml. It returns a [Config], or all errors in the file with line and
// column. The package itself opens no files and no connections: the caller passes the bytes of the file,
// functions that look up variables, files and commands, and the catalogue of streams. Start with [Parse];
// [Config.Select] returns the streams of a pipeline.
package config

import (
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// Input is what Parse needs besides the file's bytes.
type Input struct {
	File             string                              // file name for messages
	Env              func(name string) (string, bool)    // os.LookupEnv, or a substitute in tests
	Read             func(path string) (string, error)   // returns the content for ${file:…}
	Run              func(argv []string) (string, error) // runs the command of ${cmd:…} and returns its output; nil: commands are not run
	DestinationsOnly bool                                // run only the commands of destinations and state
	Rows             func(Listing) ([]Row, error)        // returns the rows of a listing; nil: listings give no sources
	Catalogue        []schemas.Stream                    // all endpoints, including writes
	Schemes          []string                            // URL schemes of the destinations
}

// Config is a valid configuration. It must not be modified.
type Config struct {
	File         string
	Version      int
	Sources      []Source      // the file's sources in their order, then the sources of Listing
	Listing      *Listing      // nil: all sources are in the file
	Destinations []Destination // in the file's order
	Pipelines    []Pipeline    // in the file's order
	Streams      []Stream      // the catalogue with overrides, then the file's own streams
	Serve        Serve
	Alerts       Alerts
	State        State
	Secrets      []wire.Secret // all secrets of the file, which a redactor removes from all output

	presets *schemas.Presets
}

// Defaults for missing settings.
const (
	DefaultState  = ".penstock"
	DefaultListen = "127.0.0.1:8080"
)

// State is where caches, locks and the inbox are stored.
type State struct {
	At  Pos
	Dir string      // a directory; "" if URL is set
	URL wire.Secret // a postgres:// database that several processes share

	Key     wire.Secret // age identities, one per line, which encrypt tokens; "": no encryption
	Keyring bool        // store tokens in the keyring of the operating system
}

// Serve configures the daemon.
type Serve struct {
	At     Pos
	Listen string
	Hosts  []string     // host names that requests may use, besides localhost and IP addresses
	Tokens []ServeToken // for the dashboard, its API and metrics; if there are none, everyone on this machine has access
	TLS    *ServeTLS    // nil: no TLS

	OTLP        *Collector // where traces are sent; nil: where the variables OTEL_… of the environment say, if they are set
	OpenLineage *Collector // where run events are sent; nil: nowhere
}

// ServeToken gives access to the dashboard and its API, or only to the metrics.
type ServeToken struct {
	Name   string // unique; shown in the log
	Secret wire.Secret
	Role   string // one of ServeRoles
}

// ServeRoles returns the roles of tokens. Each role includes the roles before it.
func ServeRoles() []string { return []string{"metrics", "read", "operate"} }

// Parse reads a configuration. If the file has errors, Parse returns them as [Faults].
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
	if root := r.document(data, wholeFile); root.given() {
		c.read(root)
	}
	if len(r.faults) > 0 {
		return nil, r.faults.sorted()
	}
	c.Secrets = r.secrets
	return c, nil
}

// read reads destinations, sources, streams and pipelines in this order, whatever their order in the file:
// each may refer to what was read before it.
func (c *Config) read(root value) {
	var sources, streams, pipelines value
	var most limits
	complete := root.mapping(fields{
		"version":      number(&c.Version, 1, 1),
		"sources":      keep(&sources),
		"destinations": func(v value) { v.place = true; c.Destinations = named(v, readDestination) },
		"pipelines":    keep(&pipelines),
		"streams":      keep(&streams),
		"max_columns":  number(&most.columns, 1, maxColumns),
		"max_tables":   number(&most.tables, 1, maxTables),
		"serve":        set(&c.Serve, readServe),
		"state":        func(v value) { v.place = true; c.State = readState(v) },
		"alerts":       set(&c.Alerts, readAlerts),
	})
	if c.State.At == (Pos{}) { // not in the file
		c.State = root.r.withStateKey(c.State, "")
	}
	if sources.given() {
		c.Sources = readSources(sources, c)
	}
	c.Streams = most.apply(root.r.readStreams(streams))
	if pipelines.given() {
		c.Pipelines = named(pipelines, func(e entry) Pipeline { return readPipeline(e, c) })
	}
	if complete {
		root.require("version", "sources", "destinations", "pipelines")
	}
	if len(root.r.faults) == 0 {
		root.r.checkCollisions(c)
		root.r.checkPlaces(c)
		root.r.checkWebhooksRead(c)
	}
}

// Fault returns an error that points at p in the file.
func (c *Config) Fault(p Pos, message string) error {
	return Faults{{File: c.File, Pos: p, Message: message}}
}

// Source returns the source named name.
func (c *Config) Source(name string) (Source, bool) {
	return find(c.Sources, func(s Source) bool { return s.Name == name })
}

// MayRead reports whether the configuration has a source of this name, or may have it: if the list of sources
// was not read, any valid name may be in it.
func (c *Config) MayRead(source string) bool {
	_, known := c.Source(source)
	return known || c.Listing != nil && c.Listing.Unread && isName(source)
}

// Destination returns the destination named name.
func (c *Config) Destination(name string) (Destination, bool) {
	return find(c.Destinations, func(d Destination) bool { return d.Name == name })
}

// Pipeline returns the pipeline named name.
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

// IsName reports whether s is a valid name of a source, destination or pipeline.
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
