package pipeline

import (
	"context"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
)

// storedPosition returns what the cursor will store: the position of the scheduled runs and the positions of all
// backfills. The parameter pos is the new position of this run, which is a scheduled run or a backfill.
func (k *destinationRun) storedPosition(p *pass, g *group, pos cursor.Position) (cursor.Position, error) {
	if k.report.Backfill == "" {
		pos.Backfills, pos.Events = k.main.Backfills, k.main.Events
		if pos.Ended {
			pos = k.announced(pos, k.all(p, g))
		}
		return k.held.AddDoubtful(pos)
	}
	if pos.Ended {
		pos.DoneAt = p.run.Now().UTC().Format(time.RFC3339)
	}
	main := k.main
	if main.Pass == "" {
		main.TouchedBy = p.id
	}
	err := main.SetBackfill(k.report.Backfill, pos)
	return main, err
}

// announced returns pos with the state of the webhook events after the pass. The parameter all is true if the pass has
// read every record.
func (k *destinationRun) announced(pos cursor.Position, all bool) cursor.Position {
	begun, err := k.begun.Applied()
	if err != nil || pos.Events == "" {
		return pos
	}
	now, err := pos.Applied()
	if err != nil {
		return pos
	}
	return pos.WithApplied(now.AfterPass(begun, all, k.over == "", k.counts.Written+k.counts.Deleted))
}

func (k *destinationRun) all(p *pass, g *group) bool {
	return !k.resumed && !k.refuted && !g.end.Partial && g.end.Skipped == 0 &&
		(g.end.Rule != extract.RuleWindows || p.from == "")
}

// keep returns the position for the cursor after a contradicted pass: the position of the last pass that was not
// contradicted. So the cursor does not cover records that did not arrive.
func (k *destinationRun) keep(p *pass) cursor.Position {
	pos := k.start
	pos.TouchedBy = p.id // makes the cursor differ from the stored one; the position stays the same
	return pos
}

// learn stores m in the destination if it differs from what the destination stores.
func (k *destinationRun) learn(ctx context.Context, p *pass, m Memory) error {
	if m.Open {
		m.Convention = extract.Convention{}
	}
	text := m.text()
	if text == "" || text == k.memory {
		return nil
	}
	k.learning = text
	return load.WriteRows(ctx, k.tx, load.Conventions, []any{p.run.Name, p.stream.Name, p.run.Run, p.run.Now(), text})
}
