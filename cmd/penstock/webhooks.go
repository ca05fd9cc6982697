package main

import (
	"github.com/spf13/cobra"
)

func (a *app) webhooksCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhooks",
		Short: "learn the signature scheme, list and replay events",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.webhooksLearnCmd(), a.webhooksListCmd(), a.webhooksReplayCmd())
	return cmd
}
