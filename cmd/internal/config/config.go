// Package config parses pipelines.yaml. It returns a [Config], or all errors in the file with line and column. The
// package itself opens no files and no connections. The caller passes the bytes of the file, functions that look up
// variables, files and commands, and the catalogue of streams. Start with [Parse]. [Config.Select] returns the streams
// of a pipeline.
package config

import (
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// Config is a valid configuration. It must not be modified.
type Config struct {
	File         string
	Version      int
	Sources      []Source      // the file's sources in their order, then the sources of Listing
	Listing      *Listing      // nil: all sources are in the file
	Destinations []Destination // in the file's order
	Pipelines    []Pipeline    // in the file's order
	Streams      []Stream      // the streams of the catalogue with the settings of the file, then the streams that the file adds
	Serve        Serve
	Worker       Worker
	Alerts       Alerts
	State        State
	Secrets      []wire.Secret // all secrets of the file, which a redactor removes from all output

	presets *schemas.Presets
}

// Fault returns an error with the position p in the file.
func (c *Config) Fault(p Pos, message string) error {
	return Faults{{File: c.File, Pos: p, Message: message}}
}

// Source returns the source with this name.
func (c *Config) Source(name string) (Source, bool) {
	return find(c.Sources, func(s Source) bool { return s.Name == name })
}

// MayRead reports whether the configuration has, or may have, a source of this name. If the list of sources was not
// read, any valid name may be in the list.
func (c *Config) MayRead(source string) bool {
	_, known := c.Source(source)
	return known || c.Listing != nil && c.Listing.Unread && IsName(source)
}

// Destination returns the destination with this name.
func (c *Config) Destination(name string) (Destination, bool) {
	return find(c.Destinations, func(d Destination) bool { return d.Name == name })
}

// Pipeline returns the pipeline with this name.
func (c *Config) Pipeline(name string) (Pipeline, bool) {
	return find(c.Pipelines, func(p Pipeline) bool { return p.Name == name })
}

// Stream returns the stream with this name.
func (c *Config) Stream(name string) (Stream, bool) {
	return find(c.Streams, func(s Stream) bool { return s.Name == name })
}
