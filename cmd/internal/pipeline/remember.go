package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Settle returns the streams of c as a run would read them: with the conventions and keys that the destinations store.
// It sends no requests to the source. A destination that fails is left out.
func Settle(ctx context.Context, c Config) ([]schemas.Stream, error) {
	r, err := newRun(c)
	if err != nil {
		return nil, err
	}
	r.recall(ctx)
	for i, s := range r.Streams {
		settled := r.remembered(s).Apply(s)
		if !slices.Equal(s.Key, settled.Key) {
			settled.Key = r.keyOf(ctx, settled)
		}
		r.Streams[i] = settled
	}
	return r.Streams, nil
}

// Remember stores conventions in the destinations of c, at the request of a person. They replace the stored
// conventions. Remember does not record a run.
func Remember(ctx context.Context, c Config, found map[string]extract.Convention) error {
	r, err := newRun(c)
	if err != nil {
		return err
	}
	r.recall(ctx)
	for _, d := range r.Destinations {
		if err := r.health.leftOut(d.Name); err != nil {
			return err
		}
		if err := r.remember(ctx, d, found); err != nil {
			return fmt.Errorf("destination %s: %w", d.Name, err)
		}
	}
	return nil
}

const conventionStream = "_conventions"

func (r *run) remember(ctx context.Context, d Destination, found map[string]extract.Convention) error {
	var rows [][]any
	for _, s := range r.Streams {
		c, ok := found[s.Name]
		if !ok {
			continue
		}
		m := r.memory[d.Name][s.Name]
		m.Convention = c
		rows = append(rows, []any{r.Name, s.Name, r.Run, r.Now(), m.text()})
	}
	if len(rows) == 0 {
		return nil
	}
	stored, err := d.Cursor(ctx, r.Key(conventionStream))
	if err != nil {
		return err
	}
	pos, err := cursor.Decode(stored)
	if err != nil {
		return err
	}
	next := cursor.Position{TouchedBy: runid.After(r.Run, pos.TouchedBy)}.Encode() // differs from the stored cursor, even in another attempt at the same run
	return load.CommitRows(ctx, d, r.Key(conventionStream), stored, next, load.Pass{Run: r.Run, Whole: true, Now: r.Now}, load.Conventions, rows...)
}
