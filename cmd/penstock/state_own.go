package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/open"
)

func stateOwnCmd(a *app) *cobra.Command {
	var to open.Selection
	cmd := &cobra.Command{
		Use:   "own",
		Short: "make this host the owner of a local destination",
		Long: `Makes this host the owner of a local destination: a DuckDB or SQLite file, or a folder.
If several hosts share a state database, a local destination belongs to the host that
wrote it first. Penstock on other hosts refuses to use it, because on another host the
same path is another file, or is on a network file system. Before you run this command,
stop penstock on the old host and copy the files to this host.`,
		Example: `  penstock state own --to warehouse`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return ownDestination(cmd.Context(), a, to) },
	}
	addDestinationFlag(cmd, &to)
	return cmd
}

// ownDestination executes `state own`.
func ownDestination(ctx context.Context, a *app, to open.Selection) error {
	c, d, _, err := a.open.Named(to)
	if err != nil {
		return err
	}
	was, err := open.Owners{Opener: &a.open, Conf: c}.TakeOver(ctx, d)
	if err != nil {
		return err
	}
	return a.say("%s: owned by %s; previously by %s\n", d.Shown, a.open.Host().Name, cmp.Or(was.Name, "nobody"))
}
