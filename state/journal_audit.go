package state

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// AuditRecord records what a user did, or tried to do, on a daemon.
type AuditRecord struct {
	At      time.Time
	Who     string // name of the token; "" for an invalid token
	What    string // sign in, run, pause, …
	Object  string // such as "pipeline nightly"; "" if What already says it
	From    string // address of the client
	Outcome string // done, or the reason why the action was not done
	Refused bool   // the daemon did not allow the action
}

// Limits of the audit log. Refused actions have their own limit. So strangers, whose actions are refused, cannot push
// out the records of the owner's actions. // Invariant 6
const (
	KeptAudit        = 10_000
	KeptAuditRefused = 2_000
)

// KeepAudit adds a record. Records with Refused true and with Refused false have separate limits. If there are too many
// records with the same value of Refused as the new record, KeepAudit deletes the oldest of them.
func (j *JournalFile) KeepAudit(ctx context.Context, r AuditRecord) error {
	return j.change(ctx, "audit", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO audit (at, who, what, object, address, outcome, refused) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			micros(r.At), Truncated(r.Who), Truncated(r.What), TruncatedObject(r.Object), Truncated(r.From), Truncated(r.Outcome), r.Refused)
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM audit WHERE refused = ?1 AND id <=
				(SELECT id FROM audit WHERE refused = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`, r.Refused, AuditKept(r.Refused))
		}
		return err
	})
}

// AuditKept returns how many records with this value of Refused are kept.
func AuditKept(refused bool) int {
	if refused {
		return KeptAuditRefused
	}
	return KeptAudit
}

// Audit returns up to limit records, newest first. The argument `offset` says how many of the newest records it skips.
// It also returns the total number of records.
func (j *JournalFile) Audit(ctx context.Context, offset, limit int) (records []AuditRecord, total int, err error) {
	if err := j.file.read.QueryRowContext(ctx, `SELECT count(*) FROM audit`).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("read journal: %w", err)
	}
	err = forEachQuery(ctx, j.file.read, func(scan func(...any) error) error {
		var r AuditRecord
		var at int64
		err := scan(&at, &r.Who, &r.What, &r.Object, &r.From, &r.Outcome, &r.Refused)
		r.At = timeOf(at)
		records = append(records, r)
		return err
	}, `SELECT at, who, what, object, address, outcome, refused FROM audit ORDER BY id DESC LIMIT ? OFFSET ?`, limit, offset)
	if err != nil {
		return nil, 0, fmt.Errorf("read journal: %w", err)
	}
	return records, total, nil
}
