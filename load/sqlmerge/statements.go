package sqlmerge

import (
	"context"
	"database/sql/driver"
	"fmt"
)

// numbers reads a result of one row of integers. A null counts as 0, because a sum over no rows is null.
func numbers(ctx context.Context, r Reader, query string, into ...*int64) error {
	return r.Query(ctx, query, func(v []driver.Value) error {
		for i := range into {
			switch n := v[i].(type) {
			case int64:
				*into[i] = n
			case nil:
				*into[i] = 0
			default: // some databases return a sum as another type
				if _, err := fmt.Sscan(fmt.Sprint(n), into[i]); err != nil {
					return fmt.Errorf("column %d is %v, want an integer", i, n)
				}
			}
		}
		return nil
	})
}

// isEmpty reports whether a FROM item has no rows.
func isEmpty(ctx context.Context, r Reader, from string) (bool, error) {
	some := int64(0)
	err := numbers(ctx, r, "SELECT count(*) FROM (SELECT 1 FROM "+from+" LIMIT 1) AS t", &some)
	return some == 0, err
}

// statements runs the statements of a transaction.
type statements struct {
	Session
	ctx     context.Context         // context of the present call of Apply
	step    func(name string) error // see [Backend].Step
	changed map[string]bool         // tables in which the transaction has deleted or updated rows
	kept    bool                    // the temporary table of kept rows was made
}

// exec runs a statement.
func (s *statements) exec(q string) error { return s.Exec(s.ctx, q) }

// change runs a statement that deletes or updates rows of t.
func (s *statements) change(t *target, q string) error {
	s.changed[t.Name] = true
	return s.exec(q)
}

// temp creates a temporary table from a query.
func (s *statements) temp(name, query string) error { return s.CreateTemp(s.ctx, name, "AS "+query) }

// numbers reads a result of one row of integers.
func (s *statements) numbers(query string, into ...*int64) error {
	return numbers(s.ctx, s.Session, query, into...)
}
