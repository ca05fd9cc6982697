package main

import (
	"github.com/spf13/cobra"
)

func webhooksCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhooks",
		Short: "learn the signature scheme, list and replay events",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(webhooksLearnCmd(a), webhooksListCmd(a), webhooksReplayCmd(a))
	return cmd
}
