package assistant

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/penstock-data/penstock/cmd/internal/browse"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/load"
)

// QueryInput are the arguments of the tool query.
type QueryInput struct {
	SQL         string `json:"sql" jsonschema:"one SELECT, WITH or EXPLAIN statement"`
	Limit       int    `json:"limit,omitempty" jsonschema:"most rows to return, 1 to 1000; default 200"`
	Destination string `json:"destination,omitempty" jsonschema:"name of the destination, if there are several"`
}

// queryFor returns the tool query for a caller.
func (a *Assistant) queryFor(c caller) func(context.Context, QueryInput) (browse.Result, error) {
	return func(ctx context.Context, in QueryInput) (out browse.Result, err error) {
		switch err := browse.CheckLength(in.SQL); {
		case c.noRows != nil:
			return out, c.noRows
		case err != nil:
			return out, err
		case in.Limit < 0 || in.Limit > browse.MaxRows:
			return out, failure.Hinted(fmt.Errorf("limit %d: want 1 to %d", in.Limit, browse.MaxRows), "aggregate in SQL instead of reading many rows")
		}
		err = a.Browser.Read(ctx, in.Destination, func(d *open.Reader) error {
			out, err = a.Browser.Query(ctx, d, in.SQL, browse.Limits{Rows: cmp.Or(in.Limit, browse.DefaultRows), Bytes: maxBytes})
			if _, hinted := errors.AsType[*failure.Error](err); err != nil && !hinted && !errors.Is(err, load.ErrTooLarge) {
				// Cause: the statement cannot be run
				err = failure.Hinted(err, "list_tables lists the tables, and describe_table their columns")
			}
			return err
		})
		return out, err
	}
}
