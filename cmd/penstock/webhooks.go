package main

import (
	"github.com/spf13/cobra"
)

func (a *app) webhooksCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhooks",
		Short: "find the signature scheme, look into the inbox, apply again",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.webhooksLearnCmd(), a.webhooksListCmd(), a.webhooksReplayCmd())
	return cmd
}
