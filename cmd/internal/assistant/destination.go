package assistant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
)

// selection returns the destination to read. The argument is the destination that the assistant has named.
func (a *Assistant) selection(named string) (open.Selection, error) {
	q := a.Only
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

// read opens a destination for one call. It is closed after the call, so that a sync is never held up longer.
func (a *Assistant) read(ctx context.Context, named string, use func(*open.Reader) error) error {
	q, err := a.selection(named)
	if err != nil {
		return err
	}
	return a.Opener.Read(ctx, q, use)
}

// readAll is like read. If no destination is named, it reads all destinations.
func (a *Assistant) readAll(ctx context.Context, named string, use func(*open.Reader) error) error {
	q, err := a.selection(named)
	if err != nil {
		return err
	}
	return a.Opener.ReadAll(ctx, q, use)
}

// dialects are the SQL dialects of the kinds of destinations.
var dialects = map[string]string{"postgres": "PostgreSQL", "postgresql": "PostgreSQL", "mysql": "MySQL", "mariadb": "MySQL", "sqlite": "SQLite"}

// dialect returns the SQL dialect for queries. Lakes are queried with DuckDB.
func dialect(d config.Destination) string { return cmp.Or(dialects[d.Scheme], "DuckDB") }

// flags replaces the flags of the command line in a hint by the arguments of tools.
var flags = strings.NewReplacer("--source NAME, or --to ", "the argument destination: ", "--to", "the argument destination", "`penstock docs`", "list_tables", "`penstock streams`", "status")

// answerable returns an error whose text says what went wrong and what the assistant can do. It contains no secret.
// Invariant 5
func (a *Assistant) answerable(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	text, hint := err.Error(), ""
	if f, ok := errors.AsType[*failure.Error](err); ok {
		hint = flags.Replace(f.Hint)
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		text, hint = fmt.Sprintf("stopped after %s", a.Time), "read fewer rows: add filters, aggregate, or name fewer tables. If a sync is writing to the file, try again later"
	case errors.Is(err, state.ErrLocked):
		hint = "a sync is writing to the file; try again in a few seconds. With `publish:` under the destination, readers get a copy that is never locked"
	}
	if c, loaded := a.Opener.LoadDestinations(); loaded == nil {
		text = wire.NewRedactor(c.Secrets...).Redact(text)
	}
	if hint != "" {
		text += "\nhint: " + hint
	}
	return errors.New(strings.TrimSpace(text))
}

// cut returns the first items of a list, and says how many were left out.
func cut[T any](all []T, most int, narrow string) ([]T, string) {
	if len(all) <= most {
		return slices.Clip(all), ""
	}
	return all[:most:most], fmt.Sprintf("only the first %d of %d are shown; %s", most, len(all), narrow)
}
