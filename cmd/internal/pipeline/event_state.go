package pipeline

import (
	"github.com/penstock-data/penstock/extract"
)

func (k *destinationRun) all(p *pass, g *group) bool {
	return !k.resumed && !k.refuted && !g.end.Partial && g.end.Skipped == 0 &&
		(g.end.Rule != extract.RuleWindows || p.from == "")
}

func (k *destinationRun) owes() bool {
	a, err := k.main.applied()
	return err == nil && a.Refresh > 0
}

func (k *destinationRun) announced(pos position, all bool) position {
	begun, err := position{events: k.begun}.applied()
	if err != nil || pos.events == "" {
		return pos
	}
	now, err := pos.applied()
	if err != nil {
		return pos
	}
	return pos.withEvents(now.passed(begun, all, k.over == "", k.counts.Written+k.counts.Deleted))
}
