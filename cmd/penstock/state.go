package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

func stateCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "show, move and back up cursors; back up and restore the state folder",
		Long: `Shows and changes the cursors of the streams. A destination stores them with the
rows that they cover. Before a cursor is changed, all cursors are written to a file
in the folder backups of the state folder. ` + "`penstock state import`" + ` restores them
from that file.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(stateShowCmd(a), stateSetCmd(a), stateResetCmd(a), stateExportCmd(a), stateImportCmd(a), stateBackupCmd(a), stateRestoreCmd(a), stateOwnCmd(a), stateAdoptCmd(a))
	return cmd
}

func stateShowCmd(a *app) *cobra.Command {
	var to open.Selection
	cmd := &cobra.Command{
		Use:   "show",
		Short: "print the cursor of every stream as the destination stores it",
		Example: `  penstock state show
  penstock state show --to lake --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.open.Read(cmd.Context(), to, func(d *open.Reader) error {
				out, err := d.Project(cmd.Context(), load.State, []string{"pipeline", "stream", "sequence", "updated_at", "cursor"}, nil)
				if err != nil {
					return err
				}
				return out.Sort("pipeline", "source", "stream").Print(a.out, a.form())
			})
		},
	}
	addDestinationFlag(cmd, &to)
	return cmd
}

// moveFlags are the flags of commands that change cursors.
type moveFlags struct {
	to       open.Selection
	pipeline string
	streams  []string
	yes      bool
}

func (f *moveFlags) register(cmd *cobra.Command) {
	addDestinationFlag(cmd, &f.to)
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask for confirmation")
}

func stateSetCmd(a *app) *cobra.Command {
	var f moveFlags
	cmd := &cobra.Command{
		Use:   "set STREAM CURSOR",
		Short: "move the cursor of a stream",
		Long: `Moves the cursor of a stream to a value that state show or state export has
printed. No rows are changed. If the cursor is moved back, the records between the two
positions are read again. If it is moved forward, they are not read.`,
		Example: `  penstock state set crm.leads '{"pass":"0b9…","at":{…},"end":true}'`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			next := state.Cursor(args[1])
			if err := cursor.Check(next); err != nil || next == "" {
				return failure.Usage("`penstock state show` prints cursors; `penstock state reset` goes back to the beginning", "%q is not a cursor", args[1])
			}
			return a.open.Read(cmd.Context(), f.to, func(d *open.Reader) error {
				p, err := f.carrier(cmd.Context(), d, args[:1])
				if err != nil {
					return err
				}
				return moveCursors(cmd.Context(), a, d, []move{{key: d.Key(p.Name, args[0]), next: next}}, f.yes)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.pipeline, "pipeline", "", "`name` of the pipeline, if several load into the destination, or none")
	return cmd
}

// carrier returns the selected pipeline. It returns an error if the pipeline does not have the streams, or if it neither
// loads into the destination nor has cursors there. It also returns an error if there are several sources and none of
// them is selected.
func (f *moveFlags) carrier(ctx context.Context, d *open.Reader, streams []string) (p config.Pipeline, err error) {
	if err := d.One(); err != nil {
		return p, err
	}
	c := d.Conf
	choices := slices.DeleteFunc(slices.Clone(c.Pipelines), func(p config.Pipeline) bool { return !loadsInto(p, d.Name) })
	if f.pipeline != "" || len(choices) == 0 {
		choices = c.Pipelines
	}
	p, err = open.Pick(c.File, "pipeline", "--pipeline", choices, func(p config.Pipeline) string { return p.Name }, f.pipeline)
	if e, ok := errors.AsType[*failure.Error](err); ok && f.pipeline == "" && len(choices) < len(c.Pipelines) {
		return p, failure.Usage(e.Hint, "name a pipeline: %d load into destination %s", len(choices), d.Name)
	}
	if err != nil {
		return p, err
	}
	if f.pipeline != "" && !loadsInto(p, d.Name) {
		all, err := cursorsOf(ctx, d)
		if err != nil {
			return p, err
		}
		if !slices.ContainsFunc(all, func(l cursorLine) bool { return l.Pipeline == p.Name }) {
			return p, failure.Usage("", "pipeline %s does not load into destination %s, and has no cursors there", p.Name, d.Name)
		}
	}
	_, err = c.Select(p, streams)
	return p, err
}

// loadsInto reports whether a pipeline loads into a destination.
func loadsInto(p config.Pipeline, destination string) bool {
	return slices.ContainsFunc(p.To, func(to config.Ref) bool { return to.Text == destination })
}

func stateResetCmd(a *app) *cobra.Command {
	var f moveFlags
	cmd := &cobra.Command{
		Use:   "reset --stream S…",
		Short: "reset the cursors of streams: the next run reads these streams from the beginning",
		Long: `Deletes the cursors of streams, and everything stored about their passes. The next
run reads them from the beginning, like a first run. Their rows stay, and records
that have not changed are counted as unchanged.`,
		Example: `  penstock state reset --stream crm.leads
  penstock state reset --pipeline nightly --stream 'crm.*' --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(f.streams) == 0 {
				return failure.Usage("--stream crm.leads, or --stream '*' for all", "name the streams to reset")
			}
			return a.open.Read(cmd.Context(), f.to, func(d *open.Reader) error { return resetCursors(cmd.Context(), a, d, f) })
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.pipeline, "pipeline", "", "`name` of the pipeline, if several load into the destination, or none")
	cmd.Flags().StringArrayVar(&f.streams, "stream", nil, "streams that match a `pattern` as in pipelines.yaml; may be repeated")
	return cmd
}

func resetCursors(ctx context.Context, a *app, d *open.Reader, f moveFlags) error {
	p, err := f.carrier(ctx, d, f.streams)
	if err != nil {
		return err
	}
	streams, err := d.Conf.Select(p, f.streams)
	if err != nil {
		return err
	}
	var moves []move
	for _, s := range streams {
		moves = append(moves, move{key: d.Key(p.Name, s.Name)})
	}
	return moveCursors(ctx, a, d, moves, f.yes)
}

func stateExportCmd(a *app) *cobra.Command {
	var to open.Selection
	cmd := &cobra.Command{
		Use:     "export",
		Short:   "print the cursors of the streams as JSON lines, for import",
		Example: `  penstock state export > cursors.jsonl`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.open.Read(cmd.Context(), to, func(d *open.Reader) error {
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

// cursorLine is a line of a file that `state export` writes.
type cursorLine struct {
	Pipeline  string     `json:"pipeline"`
	Source    string     `json:"source,omitempty"` // "" unless several sources share the tables
	Stream    string     `json:"stream"`
	Cursor    string     `json:"cursor"` // exactly as stored
	Sequence  int64      `json:"sequence,omitempty"`
	UpdatedAt *time.Time `json:"updated_at,omitempty"`
}

// cursorsOf returns the cursors of the streams in one destination, sorted.
func cursorsOf(ctx context.Context, d *open.Reader) ([]cursorLine, error) {
	var all []cursorLine
	err := history.Scan(ctx, d, load.State, func(r history.Row) error {
		k := history.KeyOf(r)
		if cursor.IsInternal(k.Stream) {
			return nil
		}
		l := cursorLine{Pipeline: k.Pipeline, Source: cmp.Or(k.Source, d.Key("", "").Source), Stream: k.Stream, Cursor: r.Text("cursor"), Sequence: r.Number("sequence")}
		if at, ok := r.Value("updated_at").(time.Time); ok {
			l.UpdatedAt = &at
		}
		all = append(all, l)
		return nil
	})
	slices.SortFunc(all, func(a, b cursorLine) int {
		return cmp.Or(cmp.Compare(a.Pipeline, b.Pipeline), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Stream, b.Stream))
	})
	return all, err
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
