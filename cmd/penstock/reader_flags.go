package main

import (
	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/open"
)

// addSourceFlag adds the flag that selects the source for [open.Opener.LoadOneSource].
func addSourceFlag(cmd *cobra.Command, source *string) {
	cmd.Flags().StringVar(source, "source", "", "`name` of the source, if the pipeline reads several")
}

func addDestinationFlag(cmd *cobra.Command, q *open.Selection) {
	cmd.Flags().StringVar(&q.To, "to", "", "`name` of the destination, if the configuration has several; --to NAME@SOURCE means --to NAME --source SOURCE")
	cmd.Flags().StringVar(&q.Source, "source", "", "`name` of the source, if the destination has several")
}
