package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/knowledge"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/extract"
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
			c, err := a.open.Load()
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

// explanation is what `explain --json` prints.
type explanation struct {
	Stream    string             `json:"stream"`
	LearnedAt time.Time          `json:"learned_at,omitzero"`
	Kept      string             `json:"destination,omitempty"` // the destination that stores the convention
	Requests  int                `json:"requests"`              // requests that were sent to learn the convention
	Facts     []extract.Fact     `json:"facts"`
	YAML      string             `json:"yaml"`
	Proved    *history.LastPass  `json:"certificate,omitempty"` // certificate of the last pass
	Rest      []history.Overflow `json:"rest,omitempty"`        // members without a column, because of the column limit
}

func printKnowledge(a *app, k knowledge.Knowledge) error {
	if a.json {
		facts := k.Facts()
		if facts == nil {
			facts = []extract.Fact{}
		}
		e := explanation{k.Stream.Name, k.Learned.LearnedAt, k.StoredIn, k.Learned.Requests, facts, k.YAML(), nil, k.Rest}
		if k.LastPass.Run != "" {
			e.Proved = &k.LastPass
		}
		return render.NewEncoder(a.out).Encode(e)
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
