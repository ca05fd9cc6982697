package pipeline

import (
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/extract"
)

func (k *destinationRun) all(p *pass, g *group) bool {
	return !k.resumed && !k.refuted && !g.end.Partial && g.end.Skipped == 0 &&
		(g.end.Rule != extract.RuleWindows || p.from == "")
}

func (k *destinationRun) owes() bool {
	a, err := k.main.Applied()
	return err == nil && a.Refresh > 0
}

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
