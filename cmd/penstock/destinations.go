package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// destinationKind describes a kind of destination. A nil field means that the kind does not need or support it.
type destinationKind struct {
	scheme  string
	missing string // why this build lacks it; "" if it has it
	open    func(context.Context, *app, config.Destination) (load.Destination, error)
	check   func(context.Context, *app, config.Destination) error             // checks the rights that opening does not test
	warn    func(context.Context, *app, config.Destination) ([]string, error) // returns warnings about rights that a run does not need
	memory  memoryPlan                                                        // memory for loads into the destination
	columns int                                                               // column limit of a stream without max_columns; 0 means schemas.DefaultColumns

	// onHost reports whether the URL is a local path. The same path on another host is another file.
	onHost func(config.Destination) bool
	// absent returns an error if there is nothing to read yet. It is called before open, because open would
	// create the destination.
	absent func(config.Destination) error
	// locate returns where other programs find an existing table: a file, a folder, or a name in SQL.
	locate func(ctx context.Context, d config.Destination, open load.Destination, table string) (string, error)
	// files returns a pattern that matches the files of a stream's table, so that a query engine can read the
	// table without penstock. The pattern stays valid after later runs.
	files func(d config.Destination, stream, table string) string
	// folder returns the default folder for downloaded files.
	folder func(d config.Destination) string
	// asker returns a querier for a destination that does not implement load.Querier.
	asker   func(context.Context, *reader) (querier, error)
	modes   bool   // the destination creates files, so the option mode applies to it
	noViews string // why the destination does not support penstock's views; "" if it does
	// publish gives readers a copy of what a run has loaded.
	publish func(context.Context, config.Destination, load.Destination) error
}

// memoryPlan limits the memory of a load. 0 means the default. // Invariant 6
type memoryPlan struct {
	heap   int64 // bytes of Go heap that the garbage collector aims for
	budget int64 // bytes of records that are read but not committed
	group  int64 // bytes of rows in one commit
	rows   int   // wanted number of rows in one commit; the last page may exceed it
}

// with returns a plan that is large enough for both r and other. The field rows is that of r, or that of other
// if r has none.
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
		return nil, failure.Usage("name one as NAME@SOURCE", "destination %s has a separate part for each source", d.Name)
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

// limitColumns sets the column limit of the streams that have none. The limit is the lowest of the default limit
// and the limits of the pipeline's destinations.
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

// options parses the part after the ? of a destination's URL. readers has a function for each option, which
// parses and stores the value.
func options(query string, readers map[string]func(string) error) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return failure.Usage("", "invalid options: want ?name=value&name=value")
	}
	for _, name := range sortedKeys(values) {
		read, ok := readers[name]
		if !ok {
			return failure.Usage("options are "+strings.Join(sortedKeys(readers), ", "), "unknown option %q", name)
		}
		if err := read(values.Get(name)); err != nil {
			return failure.Usage("", "%s %q: %w", name, values.Get(name), err)
		}
	}
	return nil
}

// filePath splits the URL of a file or folder into path and options.
func filePath(d config.Destination) (path, query string) {
	path, query, _ = strings.Cut(strings.TrimPrefix(d.URL.Reveal(), d.Scheme+":"), "?")
	return path, query
}
