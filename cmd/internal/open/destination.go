package open

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Kind describes a kind of destination. A nil field means that the kind does not need or support it.
type Kind struct {
	Scheme  string
	Missing string // why this build lacks the kind; "" if it has the kind
	Open    func(context.Context, *Opener, config.Destination) (load.Destination, error)
	Check   func(context.Context, *Opener, config.Destination) error             // checks the rights that opening does not test
	Warn    func(context.Context, *Opener, config.Destination) ([]string, error) // returns warnings about rights that a run does not need
	Memory  MemoryPlan                                                           // memory for loads into the destination
	Columns int                                                                  // column limit of a stream without max_columns; 0 means schemas.DefaultColumns

	// OnHost reports whether the URL is a local path. The same path on another host is another file.
	OnHost func(config.Destination) bool
	// Absent returns an error if there is nothing to read yet. It is called before Open, because Open would
	// create the destination.
	Absent func(config.Destination) error
	// Locate returns where other programs find an existing table: a file, a folder, or a name in SQL.
	Locate func(ctx context.Context, d config.Destination, open load.Destination, table string) (string, error)
	// Server returns the host and the port of the Postgres server that a destination uses.
	Server func(config.Destination) string
	// Files returns a pattern that matches the files of a stream's table, so that a query engine can read the
	// table without penstock. The pattern stays valid after later runs.
	Files func(d config.Destination, stream, table string) string
	// Folder returns the default folder for downloaded files.
	Folder func(d config.Destination) string
	// Querier returns a querier for a destination that does not implement load.Querier.
	Querier func(context.Context, *Reader) (Querier, error)
	Modes   bool   // the destination creates files, so the option `mode` applies to it
	NoViews string // why the destination does not support penstock's views; "" if it does

	NoChecks string // why the destination cannot run checks; "" if it can
	NoHold   string // why a check cannot hold rows back from the destination; "" if it can
	// Close closes what the destinations of this kind share, such as connections.
	Close func()
	// Lend keeps this process from opening the files of destinations of this kind, because only one process can open
	// such a file, until back() is called.
	Lend func(context.Context, []config.Destination) (back func(), err error)
	// Publish gives readers a copy of what a run has loaded.
	Publish func(context.Context, config.Destination, load.Destination) error
}

// MemoryPlan limits the memory of a load. In each field, 0 means the default. // Invariant 6
type MemoryPlan struct {
	Heap   int64 // bytes of Go heap that the garbage collector aims for, not counting the lists
	List   int64 // further bytes for each list that is read at the same time
	Lists  int   // lists that the run reads at the same time, at most
	Ahead  int64 // bytes of the answers that the run requests in advance; 0: the default of package extract
	Budget int64 // bytes of records that are read but not committed
	Group  int64 // bytes of rows in one commit
	Rows   int   // wanted number of rows in one commit; the last page may exceed it
}

// with() returns a plan that is large enough for both r and other. The field Rows is taken from r, or from other if r
// does not set it.
func (r MemoryPlan) with(other MemoryPlan) MemoryPlan {
	ahead := max(r.Ahead, other.Ahead)
	if r.Ahead == 0 || other.Ahead == 0 {
		ahead = 0
	}
	return MemoryPlan{Heap: max(r.Heap, other.Heap), List: max(r.List, other.List), Ahead: ahead, Budget: max(r.Budget, other.Budget), Group: max(r.Group, other.Group), Rows: cmp.Or(r.Rows, other.Rows)}
}

// Querier is a load.Querier that must be closed after use.
type Querier interface {
	load.Querier
	Close() error
}

// Kinds are the kinds of destinations that a program has.
type Kinds []Kind

// Of returns the kind of a destination. If this build does not support what the destination configures, it returns a
// fault with the position in the file.
func (all Kinds) Of(c *config.Config, d config.Destination) (Kind, error) {
	i := slices.IndexFunc(all, func(p Kind) bool { return p.Scheme == d.Scheme })
	if i < 0 {
		return Kind{}, c.Fault(d.At, fmt.Sprintf("destination %s: no kind of destination has the scheme %q", d.Name, d.Scheme))
	}
	if p := all[i]; p.Missing != "" {
		return p, c.Fault(d.At, fmt.Sprintf("destination %s: %s is not in this build: %s", d.Name, d.Scheme, p.Missing))
	}
	if d.Publish != "" && all[i].Publish == nil {
		return all[i], c.Fault(d.At, fmt.Sprintf("destination %s: `publish` works only with DuckDB files; readers of %s need no copy", d.Name, d.Scheme))
	}
	if d.Mode != 0 && !all[i].Modes {
		return all[i], c.Fault(d.At, fmt.Sprintf("destination %s: `mode` works only with the files of duckdb:, sqlite: and parquet:, not with %s:", d.Name, d.Scheme))
	}
	return all[i], nil
}

// Destination opens a configured destination.
func (o *Opener) Destination(ctx context.Context, c *config.Config, d config.Destination) (load.Destination, error) {
	if d.PerSource() {
		return nil, failure.Usage("name one of the parts as NAME@SOURCE", "destination %s has a separate part for each source", d.Name)
	}
	p, err := o.Kinds.Of(c, d)
	if err != nil {
		return nil, err
	}
	if err := (Owners{o, c}).check(ctx, d); err != nil {
		return nil, err
	}
	d.ReadOnly = d.ReadOnly || o.ReadOnly
	d = o.Connections.limited(c, o.Kinds, p, d)
	dest, err := o.Pool.open(d, func() (load.Destination, error) { return p.Open(ctx, o, d) })
	if err != nil {
		return nil, fmt.Errorf("open destination %s: %w", d.Name, err)
	}
	return dest, nil
}

// MemoryFor returns how much memory a run of the pipeline may take while it loads into all of its destinations.
func (o *Opener) MemoryFor(c *config.Config, p config.Pipeline) (all MemoryPlan) {
	for i, to := range p.To {
		d, _ := c.Destination(to.Text)
		of, err := o.Kinds.Of(c, d)
		if err != nil {
			continue
		}
		plan := of.Memory
		if plan.Heap = cmp.Or(plan.Heap, DefaultHeap); i > 0 {
			plan = all.with(plan)
		}
		all = plan
	}
	return all
}

// LimitColumns sets the column limit of the streams that have none. The limit is the lowest of the default limit
// and the limits of the pipeline's destinations.
func (o *Opener) LimitColumns(c *config.Config, p config.Pipeline, streams []config.Stream) {
	most := schemas.DefaultColumns
	for _, to := range p.To {
		d, _ := c.Destination(to.Text)
		if of, err := o.Kinds.Of(c, d); err == nil && of.Columns > 0 {
			most = min(most, of.Columns)
		}
	}
	for i := range streams {
		streams[i].MaxColumns = cmp.Or(streams[i].MaxColumns, most)
	}
}

// FilePath splits the URL of a file or folder into path and options.
func FilePath(d config.Destination) (path, query string) {
	path, query, _ = strings.Cut(strings.TrimPrefix(d.URL.Reveal(), d.Scheme+":"), "?")
	return path, query
}
