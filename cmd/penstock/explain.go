package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/knowledge"
	"github.com/penstock-data/penstock/cmd/internal/render"
)

func explainCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "explain STREAM",
		Short: "show what was learned or configured for a stream, and why, as YAML to paste",
		Long: `Shows what was learned or configured for a stream, and why, as YAML. If you paste
it into pipelines.yaml, the stream is read in the same way from then on. A line
with + is evidence, a line with - is a rejected hypothesis. Below them are the
verdict on the last pass and the facts that led to it. No request is sent to the
source. To learn more about a stream, run ` + "`penstock discover`" + `.`,
		Example: "  penstock explain crm.leads",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.open.LoadNames()
			if err != nil {
				return err
			}
			k, err := knowledge.Of(cmd.Context(), &a.open, c, args[0])
			if err != nil {
				return err
			}
			return printKnowledge(a, k)
		},
	}
}

func printKnowledge(a *app, k knowledge.Knowledge) error {
	if a.json {
		return render.NewEncoder(a.out).Encode(k.Explain())
	}
	switch {
	case k.Learned.Of != "":
		fmt.Fprintf(a.out, "# %s: learned %s with %s, stored in %s\n", k.Stream.Name,
			k.Learned.LearnedAt.Local().Format(time.DateTime), render.Plural(k.Learned.Requests, "request"), k.StoredIn)
	case k.Stream.Parent != "":
		fmt.Fprintf(a.out, "# %s: requested once per record of %s; its format is learned with the first record\n", k.Stream.Name, k.Stream.Parent)
	default:
		fmt.Fprintf(a.out, "# %s: nothing learned yet; run `penstock discover %s` or sync it\n", k.Stream.Name, k.Stream.Name)
	}
	knowledge.PrintFacts(a.out, "# ", k.Facts())
	for _, o := range k.Rest {
		o.Print(a.out)
	}
	k.LastPass.Print(a.out)
	_, err := fmt.Fprint(a.out, k.YAML())
	return err
}
