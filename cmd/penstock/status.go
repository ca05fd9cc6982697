package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func (a *app) statusCmd() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "how every stream stands: its last pass, what that has proven, and when",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.read(cmd.Context(), to, func(d *reader) error { return a.status(cmd.Context(), d) })
		},
	}
	addDestinationFlag(cmd, &to)
	return cmd
}

// status prints every stream's position and its newest certificate.
func (a *app) status(ctx context.Context, d *reader) error {
	counts := []string{"verdict", "fetched", "written", "unchanged", "rejected", "deleted"}
	newest, err := newestCertificates(ctx, d, counts)
	if err != nil {
		return err
	}
	out := answer{columns: append(fields(load.State, "pipeline", "stream"), fields(load.Certificates, counts...)...)}
	out.columns = append(append(out.columns, fields(load.State, "updated_at")...), fields(load.Certificates, "run")...)
	changed, err := drift(ctx, d)
	if err != nil {
		return err
	}
	out.columns = append(out.columns, schemas.Field("drift", schemas.Text, ""))
	err = scan(ctx, d, load.State, func(r row) error {
		k := state.Key{Pipeline: r.text("pipeline"), Stream: r.text("stream")}
		if strings.HasPrefix(k.Stream, "_") {
			return nil // penstock's own
		}
		c, ok := newest[k]
		if !ok {
			c.values = make([]any, len(counts))
		}
		values := append([]any{k.Pipeline, k.Stream}, c.values...)
		var drifted any
		if run, ok := c.run.(string); ok {
			if text := changed[[2]string{runOf(run), strings.ReplaceAll(k.Stream, ".", "_")}]; text != "" {
				drifted = text
			}
		}
		out.rows = append(out.rows, append(values, r.value("updated_at"), c.run, drifted))
		return nil
	})
	if err != nil {
		return err
	}
	return a.print(printer{form: a.form()}, out.sort("pipeline", "stream"))
}

// certificate is the newest of a stream's certificates.
type certificate struct {
	run, at any
	values  []any // of the columns that were asked for
}

func newestCertificates(ctx context.Context, d load.Destination, columns []string) (map[state.Key]certificate, error) {
	newest := map[state.Key]certificate{}
	err := scan(ctx, d, load.Certificates, func(r row) error {
		k := state.Key{Pipeline: r.text("pipeline"), Stream: r.text("stream")}
		c := certificate{run: r.value("run"), at: r.value("at")}
		if old, ok := newest[k]; ok && (compare(c.run, old.run) < 0 || compare(c.run, old.run) == 0 && compare(c.at, old.at) < 0) {
			return nil
		}
		for _, name := range columns {
			c.values = append(c.values, r.value(name))
		}
		newest[k] = c
		return nil
	})
	return newest, err
}

func (a *app) stateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "the cursors",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var to string
	show := &cobra.Command{
		Use:   "show",
		Short: "the cursor of every stream, as the destination holds it",
		Args:  cobra.NoArgs,
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
	addDestinationFlag(show, &to)
	cmd.AddCommand(show)
	return cmd
}
