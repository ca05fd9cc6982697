package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/load"
)

func (st *streamRun) recordHeld(ctx context.Context, err error) error {
	changed, ok := errors.AsType[*ChangedError](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	reason := changed.Reason
	if changed.Err != nil {
		reason += ": " + changed.Err.Error()
	}
	all := []drift.Notice{{Severity: drift.Blocking, Kind: drift.NoticeEnvelope, Table: st.origin.Table.Name, Reason: reason}}
	for _, k := range st.destinations {
		if k.finished || k.dest.Destination == nil {
			continue
		}
		k.report.Notices = all
		if failed := k.recordHeld(ctx, st.run, all); failed != nil {
			err = errors.Join(err, fmt.Errorf("record the notice in %s: %w", k.dest.Name, failed))
		}
	}
	return err
}

func (k *destinationRun) recordHeld(ctx context.Context, r *run, all []drift.Notice) error {
	k.rollback()
	stored, err := k.cursor(ctx, r)
	if err != nil {
		return err
	}
	pos, err := cursor.Decode(stored)
	if err != nil {
		return err
	}
	pos.TouchedBy = runid.After(r.Run, pos.TouchedBy) // makes the cursor differ from the stored cursor; the position stays the same
	return load.CommitRows(ctx, k.dest, k.key, stored, pos.Encode(), load.Pass{Run: r.Run, Whole: true, Now: r.Now}, load.Changes, r.noticeRows(all)...)
}
