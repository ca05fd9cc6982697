package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/transform"
)

// writeRejects writes the rejects in the same transaction as the rows of the group, so that no value is lost.
// Invariant 11
func (k *destinationRun) writeRejects(ctx context.Context, p *pass, g *group) error {
	now := p.Now()
	row := func(r transform.Reject) []any {
		return reject.Values(p.Run, p.Name, p.stream.Name, p.passes, now, k.rejects.Accepted(r), r)
	}
	for part := range slices.Chunk(g.rejects, rejectsAtOnce) {
		rows := make([][]any, len(part))
		for i, r := range part {
			rows[i] = row(r)
		}
		if err := load.WriteRows(ctx, k.tx, load.Rejects, rows...); err != nil {
			return err
		}
	}
	rows := make([][]any, len(g.gaps))
	for i, gap := range g.gaps {
		rows[i] = row(gapReject(gap))
	}
	return load.WriteRows(ctx, k.tx, load.Rejects, rows...)
}

// rejectsAtOnce is the number of rejects that one batch writes. // Invariant 6
const rejectsAtOnce = 4096

// gapReject returns a gap as a reject. Its ordinal is negative, so it differs from the ordinals of records.
func gapReject(g extract.Gap) transform.Reject {
	return transform.Reject{
		Stage: transform.StageExtract, ID: fmt.Sprintf("gap at %s, from %d", g.At, g.First),
		Ordinal: -1 - g.First, Pointer: "", Wanted: "an answer",
		Raw: g.Message, Reason: "the server did not return " + g.String(),
	}
}
