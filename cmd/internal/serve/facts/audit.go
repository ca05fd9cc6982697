package facts

import (
	"context"

	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/state"
)

// Audit implements board.History.
func (f *Facts) Audit(ctx context.Context, q board.Query) (board.List[board.Audit], error) {
	kept, total, err := f.Journal.Audit(ctx, q.Offset, q.Limit)
	l := board.List[board.Audit]{Total: total}
	for _, r := range kept {
		l.Items = append(l.Items, board.Audit(r))
	}
	return l, err
}

// Record adds an entry to the audit log.
func (f *Facts) Record(ctx context.Context, a board.Audit) error {
	return f.Journal.KeepAudit(ctx, state.AuditRecord(a))
}
