package facts

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/checks"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// readChecks reads the newest results of checks.
func (b *snapshot) readChecks(ctx context.Context, d load.Destination) error {
	err := scan(ctx, d, load.Checks, func(r row) {
		b.checks = append(b.checks, board.Check{
			Run: r.text("run"), Pipeline: r.text("pipeline"), Source: b.keyOf(r).Source, Stream: r.text("stream"), Destination: b.part.Name,
			Name: r.text("check_name"), OnFail: r.text("on_fail"), Result: r.text("result"), Failing: r.number("failing"), Text: cut(found(r), mostRaw), At: r.time("at"),
		})
		if len(b.checks) > 2*mostChecks {
			b.checks = lastChecks(b.checks)
		}
	})
	b.checks = lastChecks(b.checks)
	return err
}

// found says what a check has found. It returns "" if the check has passed.
func found(r row) string {
	c := checks.Result{Name: r.text("check_name"), Outcome: checks.Outcome(r.text("result")), Failing: r.number("failing"), Detail: r.text("detail")}
	if c.Good() {
		return ""
	}
	return c.Found()
}

// lastChecks returns the newest results: the newest run first, and in a run those that have not passed first.
func lastChecks(all []board.Check) []board.Check {
	passed := func(c board.Check) int {
		if c.OK() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b board.Check) int {
		return cmp.Or(strings.Compare(b.Run, a.Run), cmp.Compare(passed(a), passed(b)), strings.Compare(a.Stream, b.Stream), strings.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), mostChecks)]
}

// setChecks gives each stream the newest result of each configured check, those that have not passed first. A run may
// make some checks only, so the newest results can be of several runs.
func (b *snapshot) setChecks() {
	type check struct {
		state.Key
		name string
	}
	known := map[check]bool{}
	for _, passed := range []bool{false, true} {
		clear(known)
		for _, c := range b.checks { // the newest run comes first
			k := state.Key{Pipeline: c.Pipeline, Source: c.Source, Stream: c.Stream}
			s := b.streams[k]
			if s == nil || known[check{k, c.Name}] || b.part.Configured != nil && !b.part.Configured(c.Stream, c.Name) {
				continue
			}
			if known[check{k, c.Name}] = true; c.OK() == passed {
				s.Checks = append(s.Checks, c)
			}
		}
	}
}
