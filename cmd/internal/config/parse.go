package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// Parse reads a configuration. If the file has errors, Parse returns them as [Faults].
func Parse(data []byte, in Input) (*Config, error) {
	r := &reader{Input: in, commands: &commands{run: in.Run}}
	if in.Run != nil {
		r.Run = r.commands.once
	}
	c := &Config{File: in.File, State: State{Dir: DefaultState}, Serve: Serve{Listen: DefaultListen}, Worker: Worker{Listen: DefaultWorkerListen}}
	var err error
	if c.presets, err = schemas.LoadPresets(); err != nil {
		return nil, fmt.Errorf("parse %s: %w", in.File, err)
	}
	if root := root(r, data, wholeFile); root.given() {
		c.read(root)
	}
	if len(r.faults) > 0 {
		return nil, r.faults.sorted()
	}
	c.Secrets = r.secrets
	return c, nil
}

// read reads destinations, sources, streams and pipelines in this order, whatever their order in the file is. The
// reason is that each of these sections may refer to the sections before it.
func (c *Config) read(root value) {
	var sources, streams, pipelines, worker value
	var most limits
	complete := root.mapping(fields{
		"version":      number(&c.Version, 1, 1),
		"sources":      func(v value) { v.source = true; sources = v },
		"destinations": func(v value) { v.place = true; c.Destinations = named(v, readDestination) },
		"pipelines":    keep(&pipelines),
		"streams":      keep(&streams),
		"max_columns":  number(&most.columns, 1, maxColumns),
		"max_tables":   number(&most.tables, 1, maxTables),
		"serve":        set(&c.Serve, readServe),
		"worker":       keep(&worker),
		"state":        func(v value) { v.place = true; c.State = readState(v) },
		"alerts":       set(&c.Alerts, readAlerts),
	})
	if worker.given() {
		c.Worker = readWorker(worker, c.Serve)
	}
	if c.State.At == (Pos{}) { // not in the file
		c.State = root.r.withStateKey(c.State, "")
	}
	if sources.given() {
		c.Sources, c.Listing = readSources(sources, c.Destinations)
	}
	c.Streams = most.apply(root.r.readStreams(streams))
	if pipelines.given() {
		c.Pipelines = named(pipelines, func(e entry) Pipeline { return readPipeline(e, c) })
	}
	c.countTogether()
	if complete {
		root.require("version", "sources", "destinations", "pipelines")
	}
	if len(root.r.faults) == 0 {
		root.r.checkCollisions(c)
		root.r.checkPlaces(c)
		root.r.checkWebhooksRead(c)
	}
}

// checkCollisions reports pipelines that would write the same table.
func (r *reader) checkCollisions(c *Config) {
	tables := make([]map[string]bool, len(c.Pipelines))
	for i, p := range c.Pipelines {
		streams, err := c.Select(p, nil)
		if err != nil {
			fs, _ := errors.AsType[Faults](err)
			r.faults = append(r.faults, fs...)
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
// destination dest. The argument `tables` has one entry for each pipeline up to p: the names of its tables. So the last
// entry has the tables of p.
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

// checkPlaces reports schema names that are too long for Postgres when {source} is replaced. For a destination with
// separate tables for each source, it also reports a path of published copies that is the same for all sources.
func (r *reader) checkPlaces(c *Config) {
	for _, p := range c.Pipelines {
		for _, to := range p.To {
			d, _ := c.Destination(to.Text)
			for _, from := range p.From {
				if place := d.For(from.Text).Schema; len(place) > 63 {
					r.fault(d.At, "destination %s: schema %s has more than 63 bytes", d.Name, place)
				}
			}
			if p.MultiSource && d.PerSource() && d.Publish != "" && !strings.Contains(d.Publish, ofSource) {
				r.fault(d.At, "destination %s: each source has its own tables, but `publish` is the same path for all sources; put {source} in `publish`", d.Name)
			}
		}
	}
}

// checkWebhooksRead reports each source that receives webhooks but is not read by any pipeline. The events of such a
// source would never be applied, and would fill the inbox that all sources share.
func (r *reader) checkWebhooksRead(c *Config) {
	for _, s := range c.Sources {
		read := func(p Pipeline) bool {
			return p.Reads(s.Name)
		}
		if s.Webhooks != nil && !slices.ContainsFunc(c.Pipelines, read) {
			r.fault(s.Webhooks.At, "source %s receives webhooks, but no pipeline reads it", s.Name)
		}
	}
}
