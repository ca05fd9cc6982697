package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/assistant"
	"github.com/penstock-data/penstock/cmd/internal/browse"
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
)

func mcpCmd(a *app) *cobra.Command {
	var to open.Selection
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "let an AI assistant read the loaded data, over stdin and stdout",
		Long: `Lets an AI assistant list and describe the loaded tables, query them, and read their
status and runs. An assistant starts this command itself, and speaks the Model Context
Protocol (MCP) with it over stdin and stdout. Each answer says how fresh the tables are
and how complete they were read. Nothing is written, and no secret of a source is
needed. A query returns at most 200 rows, or up to 1,000 if the assistant asks for
them, and is stopped after 30 seconds.

--to limits the assistant to one destination. penstock serve offers the same under /mcp.`,
		Example: `  claude mcp add penstock -- penstock mcp -c /data/pipelines.yaml`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.open.LoadDestinations()
			if err != nil {
				return err
			}
			name, _, _ := strings.Cut(to.To, "@")
			if strings.Contains(to.To, "://") { // Pick refuses a url without printing it
				name = to.To
			}
			if name != "" {
				if _, err := open.Pick(c.File, "destination", "--to", c.Destinations, func(d config.Destination) string { return d.Name }, name); err != nil {
					return err
				}
			}
			a.open.ReadOnly, a.open.Pool = true, open.NewDestinationPool()
			if isTerminal(os.Stdin) {
				a.log.Info("waiting for an assistant on stdin; docs/assistant.md shows how to configure one")
			}
			s := assistant.New(assistant.Options{Browser: browse.Browser{Opener: &a.open, Only: to}, Version: versionNow().Version})
			if err := s.Serve(cmd.Context(), os.Stdin, a.out); err != nil {
				return err
			}
			return stoppedBy(cmd.Context())
		},
	}
	addDestinationFlag(cmd, &to)
	return cmd
}
