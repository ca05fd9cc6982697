package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/load"
)

// destinationKind is a kind of destination: the scheme of its URLs, how one is opened,
// and what differs between kinds beyond load's contract. What is nil, a kind
// does not need or cannot do.
type destinationKind struct {
	scheme  string
	missing string // why this build has none; "" where it has
	open    func(context.Context, *app, config.Destination) (load.Destination, error)
	check   func(context.Context, *app, config.Destination) error             // the rights that opening does not show
	warn    func(context.Context, *app, config.Destination) ([]string, error) // rights that are larger than a run needs
	room    memoryPlan                                                        // that loads into it are given

	// onHost reports whether it is a path, which means something else on each host.
	onHost func(config.Destination) bool
	// absent says that there is nothing to read yet, before open makes it.
	absent func(config.Destination) error
	// locate says where a table that is there can be found without penstock.
	locate func(ctx context.Context, d config.Destination, open load.Destination, table string) (string, error)
	// files are where an engine finds a stream's table without penstock, for
	// good, as a pattern.
	files func(d config.Destination, stream, table string) string
	// folder is where the files of streams of files are kept, unless the
	// configuration names another place.
	folder func(d config.Destination) string
	// asker answers SQL for a destination that is no load.Querier itself.
	asker func(context.Context, *reader) (querier, error)
	modes bool // it makes files, which take a mode
	// publish gives readers what a run has loaded.
	publish func(context.Context, config.Destination, load.Destination) error
}

// memoryPlan is the memory, in bytes, that a load may take; where something is 0, as
// much as for any. // Invariant 6
type memoryPlan struct {
	heap   int64 // near which the collector keeps the Go heap
	budget int64 // of records between their page and their commit
	group  int64 // of rows in one commit
	rows   int   // that suit one commit; a page more may come
}

// with is room enough for r and for other.
func (r memoryPlan) with(other memoryPlan) memoryPlan {
	return memoryPlan{heap: max(r.heap, other.heap), budget: max(r.budget, other.budget), group: max(r.group, other.group), rows: cmp.Or(r.rows, other.rows)}
}

// querier is a load.Querier to be closed after use.
type querier interface {
	load.Querier
	Close() error
}

// places is the table of destinations. A new one is a folder under load and a
// line here.
func places() []destinationKind {
	return []destinationKind{
		duckdbPlace(),
		postgresPlace("postgres"),
		postgresPlace("postgresql"),
		parquetPlace(),
		icebergPlace(),
	}
}

// placeOf is the kind of a destination, or where in the file it asks for more
// than this build can do.
func placeOf(c *config.Config, d config.Destination) (destinationKind, error) {
	all := places()
	i := slices.IndexFunc(all, func(p destinationKind) bool { return p.scheme == d.Scheme })
	if i < 0 {
		return destinationKind{}, c.Fault(d.At, fmt.Sprintf("destination %s: no destination for %q", d.Name, d.Scheme))
	}
	if p := all[i]; p.missing != "" {
		return p, c.Fault(d.At, fmt.Sprintf("destination %s: %s: is not in this build: %s", d.Name, d.Scheme, p.missing))
	}
	if d.Publish != "" && all[i].publish == nil {
		return all[i], c.Fault(d.At, fmt.Sprintf("destination %s: publish is for DuckDB files; readers of %s need no copy", d.Name, d.Scheme))
	}
	if d.Mode != 0 && !all[i].modes {
		return all[i], c.Fault(d.At, fmt.Sprintf("destination %s: mode is for the files of duckdb: and parquet:; %s: takes none", d.Name, d.Scheme))
	}
	return all[i], nil
}

// openDestination opens what a configuration names.
func (a *app) openDestination(ctx context.Context, c *config.Config, d config.Destination) (load.Destination, error) {
	if d.Apart() {
		return nil, usage("a source's own is NAME@SOURCE", "destination %s has a place for each source", d.Name)
	}
	p, err := placeOf(c, d)
	if err != nil {
		return nil, err
	}
	if err := a.atHome(ctx, c, d); err != nil {
		return nil, err
	}
	dest, err := a.lends.open(d, func() (load.Destination, error) { return p.open(ctx, a, d) })
	if err != nil {
		return nil, fmt.Errorf("open destination %s: %w", d.Name, err)
	}
	return dest, nil
}

// roomFor is what the loads into all of a pipeline's destinations may take.
func roomFor(c *config.Config, p config.Pipeline) (all memoryPlan) {
	for _, to := range p.To {
		d, _ := c.Destination(to.Text)
		if of, err := placeOf(c, d); err == nil {
			all = all.with(of.room)
		}
	}
	return all
}

// options reads what stands behind the ? of a destination's URL, each value by
// the reader of its name.
func options(query string, readers map[string]func(string) error) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return usage("", "its options are no query: want ?name=value&name=value")
	}
	for _, name := range sortedKeys(values) {
		read, ok := readers[name]
		if !ok {
			return usage("it takes "+strings.Join(sortedKeys(readers), ", "), "unknown option %q", name)
		}
		if err := read(values.Get(name)); err != nil {
			return usage("", "%s %q: %w", name, values.Get(name), err)
		}
	}
	return nil
}

// filePath splits a URL of a file or folder into its path and its options.
func filePath(d config.Destination) (path, query string) {
	path, query, _ = strings.Cut(strings.TrimPrefix(d.URL.Reveal(), d.Scheme+":"), "?")
	return path, query
}

// pathCause is an error of the file system without the path it repeats.
func pathCause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
