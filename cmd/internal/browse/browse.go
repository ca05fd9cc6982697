// Package browse reads destinations for people at the dashboard and for AI assistants. It is the only way in which both
// read tables: it opens a destination for one call, runs read-only statements within limits, and says how fresh and how
// complete the tables are.
package browse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
)

// Browser reads destinations. It is safe for concurrent use.
type Browser struct {
	Opener *open.Opener
	Only   open.Selection // the destination that may be read; the zero value allows all destinations
}

// Selection returns the destination to read. The argument is the destination that the caller has named.
func (b *Browser) Selection(named string) (open.Selection, error) {
	q := b.Only
	q.Published = true // a query of a copy never waits for a sync, and a sync never waits for the query
	switch {
	case named == "" || named == q.To:
	case q.To == "" || q.Source == "" && strings.HasPrefix(named, q.To+"@"): // a part of the allowed destination
		q.To = named
	default:
		return q, failure.Hinted(fmt.Errorf("destination %q is not offered", named), "leave the argument `destination` out")
	}
	return q, nil
}

// Read opens a destination for one call. It is closed after the call, so that a sync is never held up longer.
func (b *Browser) Read(ctx context.Context, named string, use func(*open.Reader) error) error {
	q, err := b.Selection(named)
	if err != nil {
		return err
	}
	return b.Opener.Read(ctx, q, use)
}

// ReadAll is like Read. If no destination is named, it reads all destinations.
func (b *Browser) ReadAll(ctx context.Context, named string, use func(*open.Reader) error) error {
	q, err := b.Selection(named)
	if err != nil {
		return err
	}
	return b.Opener.ReadAll(ctx, q, use)
}

// maxDestinations limits the list of destinations. // Invariant 6
const maxDestinations = 300

// Destinations returns the names of the destinations that may be read. If a destination has a part for each source, the
// list has these parts.
func (b *Browser) Destinations() ([]string, error) {
	c, err := b.Opener.LoadDestinations()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range c.Destinations {
		if only, _, _ := strings.Cut(b.Only.To, "@"); only != "" && only != d.Name {
			continue
		}
		if !d.PerSource() {
			names = append(names, d.Name)
			continue
		}
		for _, source := range c.SourcesOf(d) {
			names = append(names, d.Name+"@"+source)
		}
	}
	return names[:min(len(names), maxDestinations)], nil
}

// Explain says why a call failed, and what the caller can do. The texts contain no secret. // Invariant 5
func (b *Browser) Explain(ctx context.Context, err error) (text, hint string) {
	text = err.Error()
	if f, ok := errors.AsType[*failure.Error](err); ok {
		hint = f.Hint
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		// Cause: a statement took longer than 30 seconds
		text, hint = "stopped, because it took too long", "read fewer rows: add filters, aggregate, or name fewer tables. If a sync is writing to the file, try again later"
	case errors.Is(err, state.ErrLocked):
		// Cause: a sync has the DuckDB file open
		hint = "a sync is writing to the file; try again in a few seconds. With `publish:` under the destination, readers get a copy that is never locked"
	}
	if c, loaded := b.Opener.LoadDestinations(); loaded == nil {
		text = wire.NewRedactor(c.Secrets...).Redact(text)
	}
	return strings.TrimSpace(text), hint
}

// dialects are the SQL dialects of the kinds of destinations.
var dialects = map[string]string{"postgres": postgres, "postgresql": postgres, "mysql": mysql, "mariadb": mysql, "sqlite": sqlite}

// The SQL dialects.
const (
	postgres = "PostgreSQL"
	mysql    = "MySQL"
	sqlite   = "SQLite"
	duckdb   = "DuckDB"
)

// Dialect returns the SQL dialect for queries. Lakes are queried with DuckDB.
func Dialect(d config.Destination) string { return cmp.Or(dialects[d.Scheme], duckdb) }
