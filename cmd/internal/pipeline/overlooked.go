package pipeline

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// writeOlder merges those rows of the group whose records were changed before the edge. The edge is the time up to
// which earlier passes have read all changes. The destination counts how many of the merged rows are new or changed.
// Each of them is a change that incremental passes have missed. The other rows of the group stay in k.held.
func (k *destinationRun) writeOlder(ctx context.Context, g *group) error {
	if !slices.Contains(g.older.flags, true) {
		return nil
	}
	before, err := batch.Without(k.held.Batches, func(ordinal int64) bool { return !g.older.is(ordinal) })
	defer batch.ReleaseTables(before)
	if err != nil {
		return err
	}
	after, err := batch.Without(k.held.Batches, g.older.is)
	k.held.Give(after)
	if err != nil {
		return err
	}
	for _, b := range before {
		if err := k.tx.Write(ctx, b.Table, b.Batch); err != nil {
			return err
		}
	}
	out, err := k.apply(ctx, load.Sweep{})
	k.overlooked += out.Written
	return err
}

func refutationNote(r cursor.Refutation, s schemas.Stream) string {
	if !r.IsSet() || !s.Incremental.Set() {
		return ""
	}
	return "every pass reads the whole list because incremental passes miss changes: " + r.Why
}

// stillRefuted returns r if r is about the field and the parameter by which incremental passes over s request changes.
// If that configuration has changed since r was found, stillRefuted returns an empty Refutation.
func stillRefuted(r cursor.Refutation, s schemas.Stream) cursor.Refutation {
	if r.Of != "" && s.Incremental.Set() && r.Of != requestsBy(s) {
		return cursor.Refutation{}
	}
	return r
}

func requestsBy(s schemas.Stream) string {
	i := s.Incremental
	if i.Auto {
		return "auto"
	}
	return strings.TrimSpace(i.Field + " " + i.Param)
}

// refute ends incremental reading of the stream in two cases: the pass found a change that incremental passes miss, or
// the list is not in the order that incremental passes rely on.
func (k *destinationRun) refute(p *pass, g *group) {
	if k.incrementalRefuted.IsSet() {
		return
	}
	c := proof.Changes{Field: p.stream.Incremental.Field, Edge: g.older.edge.UTC().Format(time.RFC3339), Overlooked: k.overlooked}
	if g.end != nil {
		c.Misplaced = g.end.Misplaced
	}
	why := c.Refuted()
	if why == "" {
		return
	}
	k.incrementalRefuted = cursor.Refutation{Of: requestsBy(p.stream), Why: why}
	k.noticed = append(k.noticed, drift.Notice{Severity: drift.Warned, Kind: drift.NoticeIncremental, Table: p.stream.Table.Name, Reason: why + ": from now on every pass reads the whole list"})
}
