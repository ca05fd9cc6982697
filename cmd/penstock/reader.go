package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// reader is a destination that a verb reads. If source is set, it is only that source's part of the destination.
type reader struct {
	load.Destination
	name   string
	of     config.Destination
	kind   destinationKind
	conf   *config.Config
	source string // the source whose rows are read; "" for all
	shared bool   // several sources share its tables
}

// selection is what the command line selects. to is the name of a destination, or NAME@SOURCE; "" means
// the only destination. source is the name of a source; "" means all sources.
type selection struct {
	to, source string
	sources    bool // the verb needs sources as well
}

func addDestinationFlag(cmd *cobra.Command, q *selection) {
	cmd.Flags().StringVar(&q.to, "to", "", "`name` of the destination, if the configuration has several; NAME@SOURCE is --to NAME --source SOURCE")
	cmd.Flags().StringVar(&q.source, "source", "", "`name` of the source, if the destination has several")
}

// find returns the selected destination and source.
func (q selection) find(c *config.Config) (d config.Destination, source string, err error) {
	to, source, at := strings.Cut(q.to, "@")
	if at && q.source != "" && q.source != source {
		return d, "", failure.Usage("", "--to %s and --source %s contradict each other", q.to, q.source)
	}
	if !at {
		source = q.source
	}
	d, err = pick(c.File, "destination", "--to", c.Destinations, func(d config.Destination) string { return d.Name }, to)
	if err != nil {
		return d, "", err
	}
	if (at || source != "") && !c.MayRead(source) {
		return d, "", failure.Usage("`penstock sources list` lists them", "no source %q in %s", source, c.File)
	}
	switch {
	case d.PerSource() && source == "":
		err = failure.Usage(fmt.Sprintf("choose one with --source NAME, or --to %s@SOURCE", d.Name), "destination %s has a separate part for each source", d.Name)
	case source != "" && !d.PerSource() && !c.Shared(d):
		err = failure.Usage(fmt.Sprintf("--to %s", d.Name), "destination %s has the rows of only one source", d.Name)
	}
	return d, source, err
}

// named returns the configuration, and the selected destination. If a source is selected, d is that source's
// part.
func (a *app) named(q selection) (c *config.Config, d config.Destination, source string, err error) {
	load := a.loadPlaces
	if q.sources {
		load = a.load
	}
	if c, err = load(); err != nil {
		return c, d, "", err
	}
	d, source, err = q.find(c)
	return c, d.For(source), source, err
}

// read opens the selected destination and calls use.
func (a *app) read(ctx context.Context, q selection, use func(*reader) error) error {
	c, d, source, err := a.named(q)
	if err != nil {
		return err
	}
	p, err := destinationKindOf(c, d)
	if err == nil {
		err = a.checkHost(ctx, c, d)
	}
	if err != nil {
		return err
	}
	if p.absent != nil {
		if err := p.absent(d); err != nil {
			return failure.Hinted(fmt.Errorf("open destination %s: %w", d.Name, err), "`penstock sync` creates and fills it")
		}
	}
	open := a.openDestination
	if source != "" {
		open = func(ctx context.Context, c *config.Config, d config.Destination) (load.Destination, error) {
			return a.openPart(ctx, c, d, source)
		}
	}
	dest, err := open(ctx, c, d)
	if err != nil {
		return err
	}
	err = use(&reader{Destination: dest, name: d.Name, of: d, kind: p, conf: c, source: source, shared: c.Shared(d)})
	return errors.Join(err, dest.Close())
}

// ask calls use with a querier for the destination. It returns an error if the destination does not support
// SQL.
func (r *reader) ask(ctx context.Context, use func(load.Querier) error) error {
	if q, ok := r.Destination.(load.Querier); ok {
		return use(q)
	}
	if r.kind.asker == nil {
		return failure.Usage("", "destination %s (%s) does not support SQL", r.name, r.of.Scheme)
	}
	q, err := r.kind.asker(ctx, r)
	if err != nil {
		return err
	}
	return errors.Join(use(q), q.Close())
}

// all reports whether the reader reads the rows of several sources.
func (r *reader) all() bool { return r.shared && r.source == "" }

// one returns an error if the reader reads the rows of several sources. Some verbs need a single source.
func (r *reader) one() error {
	if !r.all() {
		return nil
	}
	return failure.Usage("choose one with --source NAME; `penstock sources list` lists them", "several sources share the tables of destination %s", r.name)
}

// together returns an error if one of several sources is selected. Some verbs can only work on all sources of a
// table.
func (r *reader) together(hint string) error {
	if !r.shared || r.source == "" {
		return nil
	}
	return failure.Usage(hint, "several sources share the tables of destination %s", r.name)
}

// project is like the function [Project]. If the reader reads several sources, the first column is the source of
// each row.
func (r *reader) project(ctx context.Context, t schemas.Table, columns []string, keep func(history.Row) bool) (render.Answer, error) {
	if !r.all() || t.Name == load.Changes.Name { // a change of a table belongs to no source
		return history.Project(ctx, r, t, columns, keep)
	}
	t = load.ShareTable(t)
	out, err := history.Project(ctx, r, t, append([]string{schemas.ColSource}, columns...), keep)
	out.Columns[0] = schemas.Field("source", schemas.Text, "")
	return out, err
}

// tables returns the loaded tables by name, without penstock's own tables.
func (r *reader) tables(ctx context.Context) (map[string]schemas.Table, error) {
	all, err := history.Tables(ctx, r)
	if r.conf.Shared(r.of) { // the files of a lake have no source column, because the source is in the names of folders
		for name, t := range all {
			all[name] = load.ShareTable(t)
		}
	}
	return all, err
}

// table returns one of the loaded tables.
func (r *reader) table(ctx context.Context, name string) (schemas.Table, error) {
	all, err := r.tables(ctx)
	if err != nil {
		return schemas.Table{}, err
	}
	t, ok := all[name]
	if !ok {
		return t, r.unknownTable(name)
	}
	return t, nil
}

func (r *reader) unknownTable(name string) error {
	return &failure.Error{
		Err:  fmt.Errorf("no table %q in destination %s", name, r.name),
		Hint: "`penstock docs` lists what is loaded",
		Code: failure.ExitFailed,
	}
}
