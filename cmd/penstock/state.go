package main

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

func (a *app) stateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "the cursors: show, move, back up; the state folder: back up, restore",
		Long: `The cursors of the streams, as a destination holds them beside the rows they
cover. Before any of them is changed, all are written to a file of the folder
backups below the state folder, which ` + "`penstock state import`" + ` takes back.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.stateShowCmd(), a.stateSetCmd(), a.stateResetCmd(), a.stateExportCmd(), a.stateImportCmd(), a.stateBackupCmd(), a.stateRestoreCmd(), a.stateOwnCmd())
	return cmd
}

func (a *app) stateShowCmd() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "the cursor of every stream, as the destination holds it",
		Example: `  penstock state show
  penstock state show --to lake --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.read(cmd.Context(), to, func(d *reader) error {
				out, err := project(cmd.Context(), d, load.State, []string{"pipeline", "stream", "sequence", "updated_at", "cursor"}, nil)
				if err != nil {
					return err
				}
				return a.print(printer{form: a.form()}, out.sort("pipeline", "stream"))
			})
		},
	}
	addDestinationFlag(cmd, &to)
	return cmd
}

// moveFlags are the command line's words for changing cursors.
type moveFlags struct {
	to, pipeline string
	streams      []string
	yes          bool
}

func (f *moveFlags) register(cmd *cobra.Command) {
	addDestinationFlag(cmd, &f.to)
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
}

func (a *app) stateSetCmd() *cobra.Command {
	var f moveFlags
	cmd := &cobra.Command{
		Use:   "set STREAM CURSOR",
		Short: "move the cursor of a stream",
		Long: `Moves the cursor of a stream to one that was there before, as state show and
state export print it. No rows are touched: what the source has between the two
is read again, or never.`,
		Example: `  penstock state set crm.leads '{"pass":"0b9…","at":{…},"end":true}'`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			next := state.Cursor(args[1])
			if err := pipeline.CheckCursor(next); err != nil || next == "" {
				return usage("`penstock state show` prints cursors; `penstock state reset` goes back to the beginning", "%q is no cursor of a stream", args[1])
			}
			return a.read(cmd.Context(), f.to, func(d *reader) error {
				p, err := f.carrier(d.conf, args[:1])
				if err != nil {
					return err
				}
				return a.moveCursors(cmd.Context(), d, []move{{Key: state.Key{Pipeline: p, Stream: args[0]}, next: next}}, f.yes)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.pipeline, "pipeline", "", "`name` of the pipeline, where the configuration has several")
	return cmd
}

// carrier is the pipeline that is meant, if it carries the streams.
func (f *moveFlags) carrier(c *config.Config, streams []string) (string, error) {
	p, err := pick(c.File, "pipeline", "--pipeline", c.Pipelines, func(p config.Pipeline) string { return p.Name }, f.pipeline)
	if err != nil {
		return "", err
	}
	_, err = c.Select(p, streams)
	return p.Name, err
}

func (a *app) stateResetCmd() *cobra.Command {
	var f moveFlags
	cmd := &cobra.Command{
		Use:   "reset --stream S…",
		Short: "forget the cursors of streams: the next run reads them from the beginning",
		Long: `Forgets the cursors of streams, and with them everything that was remembered of
their passes: the next run reads them from the beginning, as if it were the
first. Their rows stay, and a record that is still there is found unchanged.`,
		Example: `  penstock state reset --stream crm.leads
  penstock state reset --pipeline nightly --stream 'crm.*' --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(f.streams) == 0 {
				return usage("--stream crm.leads, or --stream '*' for all", "reset which streams?")
			}
			return a.read(cmd.Context(), f.to, func(d *reader) error { return a.resetCursors(cmd.Context(), d, f) })
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.pipeline, "pipeline", "", "`name` of the pipeline, where the configuration has several")
	cmd.Flags().StringArrayVar(&f.streams, "stream", nil, "these streams: a `pattern` as in pipelines.yaml; may be repeated")
	return cmd
}

func (a *app) resetCursors(ctx context.Context, d *reader, f moveFlags) error {
	name, err := f.carrier(d.conf, f.streams)
	if err != nil {
		return err
	}
	p, _ := d.conf.Pipeline(name)
	streams, err := d.conf.Select(p, f.streams)
	if err != nil {
		return err
	}
	var moves []move
	for _, s := range streams {
		moves = append(moves, move{Key: state.Key{Pipeline: name, Stream: s.Name}})
	}
	return a.moveCursors(ctx, d, moves, f.yes)
}

func (a *app) stateExportCmd() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:     "export",
		Short:   "the cursors of the streams as JSON lines, for import",
		Example: `  penstock state export > cursors.jsonl`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.read(cmd.Context(), to, func(d *reader) error {
				all, err := cursorsOf(cmd.Context(), d)
				if err != nil {
					return err
				}
				return writeCursors(a.out, all)
			})
		},
	}
	addDestinationFlag(cmd, &to)
	return cmd
}

// cursorLine is a line of an export.
type cursorLine struct {
	Pipeline  string     `json:"pipeline"`
	Stream    string     `json:"stream"`
	Cursor    string     `json:"cursor"` // byte by byte
	Sequence  int64      `json:"sequence,omitempty"`
	UpdatedAt *time.Time `json:"updated_at,omitempty"`
}

// cursorsOf are the cursors of the streams in one destination, in their order.
func cursorsOf(ctx context.Context, d *reader) ([]cursorLine, error) {
	out, err := project(ctx, d, load.State, []string{"pipeline", "stream", "cursor", "sequence", "updated_at"},
		func(r row) bool { return !pipeline.OwnCursor(r.text("stream")) })
	if err != nil {
		return nil, err
	}
	var all []cursorLine
	for _, r := range out.sort("pipeline", "stream").rows {
		l := cursorLine{}
		l.Pipeline, _ = r[0].(string)
		l.Stream, _ = r[1].(string)
		l.Cursor, _ = r[2].(string)
		l.Sequence, _ = r[3].(int64)
		if at, ok := r[4].(time.Time); ok {
			l.UpdatedAt = &at
		}
		all = append(all, l)
	}
	return all, nil
}

func writeCursors(w io.Writer, all []cursorLine) error {
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	for _, l := range all {
		if err := lines.Encode(l); err != nil {
			return err
		}
	}
	return nil
}
