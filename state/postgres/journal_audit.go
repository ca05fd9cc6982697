package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state"
)

// KeepAudit implements [state.AuditStore].
func (j *journal) KeepAudit(ctx context.Context, r state.AuditRecord) error {
	return j.change(ctx, "audit", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO audit (at, who, what, object, address, outcome, refused) VALUES ($1, $2, $3, $4, $5, $6, $7)",
			r.At, short(r.Who), short(r.What), clean(state.TruncatedObject(r.Object)), short(r.From), short(r.Outcome), r.Refused)
		if err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM audit WHERE refused = $1 AND id <=
				(SELECT id FROM audit WHERE refused = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)`, r.Refused, state.AuditKept(r.Refused))
		}
		return err
	})
}

// Audit implements [state.AuditStore].
func (j *journal) Audit(ctx context.Context, offset, limit int) (records []state.AuditRecord, total int, err error) {
	err = j.s.read(ctx, func(q querier) error {
		if err := q.QueryRow(ctx, "SELECT count(*) FROM audit").Scan(&total); err != nil {
			return err
		}
		rows, err := q.Query(ctx, "SELECT at, who, what, object, address, outcome, refused FROM audit ORDER BY id DESC LIMIT $1 OFFSET $2", limit, offset)
		if err != nil {
			return err
		}
		records, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r state.AuditRecord, err error) {
			err = row.Scan(&r.At, &r.Who, &r.What, &r.Object, &r.From, &r.Outcome, &r.Refused)
			r.At = r.At.UTC()
			return r, err
		})
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read journal: %w", err)
	}
	return records, total, nil
}
