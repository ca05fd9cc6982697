package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
)

func stateAdoptCmd(a *app) *cobra.Command {
	var f moveFlags
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "confirm that tables belong to the configured pipeline and source",
		Long: `Each table belongs to one stream of one pipeline, and to one source at one
address. A sync by another pipeline, or from another source or address, writes
nothing. With this command you confirm that the source is the same workspace at a
new address or under a new name, or that a pipeline takes over the tables of
another pipeline.

With a new address or name, the cursors stay: the next run continues from them. A
pipeline that takes over tables reads their streams from the beginning, and the
cursors of the previous pipeline are reset. If the new address is that of another
workspace, use state reset instead: the records of that workspace then replace the rows.`,
		Example: `  penstock state adopt
  penstock state adopt --to warehouse --stream 'crm.*' --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.to.Sources = true // because adoptTables compares the address of each source with the address that is stored with the tables
			return a.open.Read(cmd.Context(), f.to, func(d *open.Reader) error { return adoptTables(cmd.Context(), a, d, f) })
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.pipeline, "pipeline", "", "`name` of the pipeline, if several load into the destination, or none")
	cmd.Flags().StringArrayVar(&f.streams, "stream", nil, "only streams that match a `pattern` as in pipelines.yaml; may be repeated")
	return cmd
}

// adoption describes a table that a stream takes over from its present owner.
type adoption struct {
	move
	claim load.Claim
	why   *load.OwnerError
}

// adoptTables executes `state adopt`.
func adoptTables(ctx context.Context, a *app, d *open.Reader, f moveFlags) error {
	todo, err := adoptions(ctx, d, f)
	if err != nil {
		return err
	}
	if len(todo) == 0 {
		return a.say("nothing to adopt: the tables belong to this pipeline and its source\n")
	}
	var moves []move
	for _, t := range todo {
		moves = append(moves, t.move)
		if !f.yes {
			fmt.Fprintf(a.err, "%s\n", t.why)
		}
	}
	_, unlock, err := beginMoves(ctx, a, d, moves, f.yes, fmt.Sprintf("adopt %s in %s?", render.Plural(len(todo), "table"), d.Name))
	if err != nil {
		return err
	}
	defer unlock()
	for _, t := range todo {
		if err := commitAdoption(ctx, a, d, t); err != nil {
			return fmt.Errorf("adopt table %s: %w", t.claim.Table, err)
		}
	}
	return nil
}

// adoptions returns the tables that the pipeline's streams load into, but that belong to another owner.
func adoptions(ctx context.Context, d *open.Reader, f moveFlags) (todo []adoption, err error) {
	p, err := f.carrier(ctx, d, f.streams)
	if err != nil {
		return nil, err
	}
	streams, err := d.Conf.Select(p, f.streams)
	if err != nil {
		return nil, err
	}
	source, known := d.Conf.Source(cmp.Or(d.Source, p.From[0].Text))
	if !known {
		return nil, failure.Usage("", "no source %q in %s", cmp.Or(d.Source, p.From[0].Text), d.Conf.File)
	}
	origins := open.Origins(source, streams)
	for _, s := range streams {
		t := adoption{move: move{key: d.Key(p.Name, s.Name)}, claim: load.Claim{Table: s.Table.Name, Origin: origins[s.Name], Adopt: true}}
		if t.was, err = d.Cursor(ctx, t.key); err != nil {
			return nil, err
		}
		at, err := d.StreamState(ctx, t.key, s.Table.Name)
		if err != nil {
			return nil, err
		}
		claim := t.claim
		claim.Adopt = false
		err = pipeline.CheckOwner(claim, t.key, t.was, at)
		if err == nil {
			continue
		}
		var another bool
		if t.why, another = errors.AsType[*load.OwnerError](err); !another {
			return nil, err
		}
		if t.next, err = cursor.Moved(t.was, t.claim.Address); err != nil {
			return nil, err
		}
		todo = append(todo, t)
	}
	return todo, nil
}

// adopted is the JSON line of one adoption.
type adopted struct {
	Table string     `json:"table"`
	Was   load.Owner `json:"was"`
	Owner load.Owner `json:"owner"`
}

// commitAdoption takes over one table. It returns an error if the stream's cursor has changed since it was read.
func commitAdoption(ctx context.Context, a *app, d *open.Reader, t adoption) error {
	now := a.open.State(d.Conf).Now
	tx, err := d.Begin(ctx, t.key, t.was, load.Pass{Run: runid.New(now()), Now: now, Claim: t.claim})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := tx.Commit(ctx, t.next); err != nil {
		return err
	}
	if a.json {
		return render.NewEncoder(a.out).Encode(adopted{t.claim.Table, t.why.Have, t.why.Want})
	}
	return a.say("adopted %s\n", t.claim.Table)
}
