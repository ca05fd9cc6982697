package main

import "github.com/spf13/cobra"

// addSourceFlag adds the flag that selects the source for [app.loadOneSource].
func addSourceFlag(cmd *cobra.Command, source *string) {
	cmd.Flags().StringVar(source, "source", "", "`name` of the source, if the pipeline reads several")
}

func addDestinationFlag(cmd *cobra.Command, q *Selection) {
	cmd.Flags().StringVar(&q.To, "to", "", "`name` of the destination, if the configuration has several; NAME@SOURCE is --to NAME --source SOURCE")
	cmd.Flags().StringVar(&q.Source, "source", "", "`name` of the source, if the destination has several")
}
