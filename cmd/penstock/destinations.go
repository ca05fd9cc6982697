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
	"github.com/penstock-data/penstock/schemas"
)

// destinationKind describes a kind of destination. A nil field means that the kind does not need or support it.
type destinationKind struct {
	scheme  string
	missing string // why this build lacks it; "" if it has it
	open    func(context.Context, *app, config.Destination) (load.Destination, error)
	check   func(context.Context, *app, config.Destination) error             // checks the rights that opening does not test
	warn    func(context.Context, *app, config.Destination) ([]string, error) // returns warnings about rights larger than a run needs
	memory  memoryPlan                                                        // memory for loads into the destination
	columns int                                                               // limit of a stream without max_columns; 0 means schemas.DefaultColumns

	// onHost reports whether the URL is a path, which is a different place on each host.
	onHost func(config.Destination) bool
	// absent returns an error if there is nothing to read yet. It is called before open, because open would
	// create the destination.
	absent func(config.Destination) error
	// locate returns where a table that exists can be found without penstock.
	locate func(ctx context.Context, d config.Destination, open load.Destination, table string) (string, error)
	// files returns the pattern under which an engine finds a stream's table without penstock. The pattern
	// stays valid after later runs.
	files func(d config.Destination, stream, table string) string
	// folder returns where streams of files keep their files, unless the configuration says otherwise.
	folder func(d config.Destination) string
	// asker answers SQL for a destination that does not implement load.Querier.
	asker   func(context.Context, *reader) (querier, error)
	modes   bool   // the destination creates files, which have a mode
	noViews string // why penstock's ready views cannot run in the destination; "" if they can
	// publish gives readers a copy of what a run has loaded.
	publish func(context.Context, config.Destination, load.Destination) error
}

// memoryPlan is how much memory a load may take, in bytes except for rows. 0 means the default. // Invariant 6
type memoryPlan struct {
	heap   int64 // Go heap that the collector aims for
	budget int64 // bytes of records that are read but not committed
	group  int64 // bytes of rows in one commit
	rows   int   // number of rows wanted in one commit; one page more may be added
}

// with returns a plan that is large enough for r and for other. Its field rows is r.rows, or other.rows if r.rows
// is 0.
func (r memoryPlan) with(other memoryPlan) memoryPlan {
	return memoryPlan{heap: max(r.heap, other.heap), budget: max(r.budget, other.budget), group: max(r.group, other.group), rows: cmp.Or(r.rows, other.rows)}
}

// querier is a load.Querier that must be closed after use.
type querier interface {
	load.Querier
	Close() error
}

// destinationKinds lists the kinds of destinations. A new kind needs a folder under load, a file like duckdb.go, and
// a line here.
func destinationKinds() []destinationKind {
	return []destinationKind{
		duckdbKind(),
		sqliteKind(),
		postgresKind("postgres"),
		postgresKind("postgresql"),
		parquetKind(),
		icebergKind(),
	}
}

// destinationKindOf returns the kind of a destination. If this build does not support what the
// destination configures, it returns a fault with the position.
func destinationKindOf(c *config.Config, d config.Destination) (destinationKind, error) {
	all := destinationKinds()
	i := slices.IndexFunc(all, func(p destinationKind) bool { return p.scheme == d.Scheme })
	if i < 0 {
		return destinationKind{}, c.Fault(d.At, fmt.Sprintf("destination %s: no destination for %q", d.Name, d.Scheme))
	}
	if p := all[i]; p.missing != "" {
		return p, c.Fault(d.At, fmt.Sprintf("destination %s: %s is not in this build: %s", d.Name, d.Scheme, p.missing))
	}
	if d.Publish != "" && all[i].publish == nil {
		return all[i], c.Fault(d.At, fmt.Sprintf("destination %s: publish works only with DuckDB files; readers of %s need no copy", d.Name, d.Scheme))
	}
	if d.Mode != 0 && !all[i].modes {
		return all[i], c.Fault(d.At, fmt.Sprintf("destination %s: mode works only with the files of duckdb:, sqlite: and parquet:, not with %s:", d.Name, d.Scheme))
	}
	return all[i], nil
}

// openDestination opens a configured destination.
func (a *app) openDestination(ctx context.Context, c *config.Config, d config.Destination) (load.Destination, error) {
	if d.PerSource() {
		return nil, usage("name one as NAME@SOURCE", "destination %s has a separate part for each source", d.Name)
	}
	p, err := destinationKindOf(c, d)
	if err != nil {
		return nil, err
	}
	if err := a.checkHost(ctx, c, d); err != nil {
		return nil, err
	}
	dest, err := a.destinations.open(d, func() (load.Destination, error) { return p.open(ctx, a, d) })
	if err != nil {
		return nil, fmt.Errorf("open destination %s: %w", d.Name, err)
	}
	return dest, nil
}

// memoryFor returns the memory that loads into all of a pipeline's destinations may take.
func memoryFor(c *config.Config, p config.Pipeline) (all memoryPlan) {
	for _, to := range p.To {
		d, _ := c.Destination(to.Text)
		if of, err := destinationKindOf(c, d); err == nil {
			all = all.with(of.memory)
		}
	}
	return all
}

// limitColumns sets the column limit of streams that have none. It is the lowest limit of the
// pipeline's destinations, or the default limit if that is lower.
func limitColumns(c *config.Config, p config.Pipeline, streams []config.Stream) {
	most := schemas.DefaultColumns
	for _, to := range p.To {
		d, _ := c.Destination(to.Text)
		if of, err := destinationKindOf(c, d); err == nil && of.columns > 0 {
			most = min(most, of.columns)
		}
	}
	for i := range streams {
		streams[i].MaxColumns = cmp.Or(streams[i].MaxColumns, most)
	}
}

// options parses the part after the ? of a destination's URL. It passes each value to the function in
// readers with the option's name.
func options(query string, readers map[string]func(string) error) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return usage("", "invalid options: want ?name=value&name=value")
	}
	for _, name := range sortedKeys(values) {
		read, ok := readers[name]
		if !ok {
			return usage("options are "+strings.Join(sortedKeys(readers), ", "), "unknown option %q", name)
		}
		if err := read(values.Get(name)); err != nil {
			return usage("", "%s %q: %w", name, values.Get(name), err)
		}
	}
	return nil
}

// filePath splits the URL of a file or folder into path and options.
func filePath(d config.Destination) (path, query string) {
	path, query, _ = strings.Cut(strings.TrimPrefix(d.URL.Reveal(), d.Scheme+":"), "?")
	return path, query
}

// pathCause returns the error of the file system without the path, because the message already has the
// path.
func pathCause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
