package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
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
			k, err := knowledgeOf(cmd.Context(), a, c, args[0])
			if err != nil {
				return err
			}
			return printKnowledge(a, k)
		},
	}
}

// knowledgeOf collects what is known about a stream. If several destinations store conventions of the stream, it
// uses the newest convention that fits the stream's present settings.
func knowledgeOf(ctx context.Context, a *app, c *config.Config, name string) (knowledge, error) {
	s, ok := c.Stream(name)
	k := knowledge{stream: s}
	if !ok || !s.Readable() {
		streams, err := c.Select(config.Pipeline{Name: "explain", From: []config.Ref{{Text: c.Sources[0].Name}}}, []string{name})
		if err != nil {
			return k, err
		}
		return k, failure.Usage("`penstock streams` lists them", "%q is %s; name one", name, render.Plural(len(streams), "stream"))
	}
	for _, p := range c.Pipelines {
		carried, err := c.Select(p, []string{name})
		if err != nil || len(carried) != 1 {
			continue
		}
		a.open.LimitColumns(c, p, carried)
		for _, to := range p.To {
			d, _ := c.Destination(to.Text)
			if len(p.From) > 0 {
				d = d.For(p.From[0].Text) // only the part of the first source is read
			}
			m, last, rest, err := storedKnowledge(ctx, a, c, d, p.Name, k.stream.Table)
			if err != nil {
				a.log.Warn("cannot read the conventions of a destination; it is skipped", "destination", d.Name, "error", err)
				continue
			}
			if rest.Records > 0 {
				rest.Limited = carried[0].Stream
				k.rest = append(k.rest, rest)
			}
			if w := last[name]; w.Run > k.proved.Run {
				k.proved = w
			}
			if found := m[name].Convention; found.Fits(k.stream.Stream) && found.LearnedAt.After(k.learned.LearnedAt) {
				k.learned, k.kept = found, d.Name
			}
		}
	}
	return k, nil
}

// storedKnowledge returns what a destination stores about the streams of the pipeline of: their conventions and their
// newest certificates. It also counts the members of table t that have no column because of the column limit. If the
// destination does not exist yet, storedKnowledge returns nothing.
func storedKnowledge(ctx context.Context, a *app, c *config.Config, d config.Destination, of string, t schemas.Table) (pipeline.Memories, map[string]history.LastPass, history.Overflow, error) {
	p, err := a.open.Kind(c, d)
	if err != nil {
		return nil, nil, history.Overflow{}, err
	}
	if p.Absent != nil && p.Absent(d) != nil {
		return nil, nil, history.Overflow{}, nil
	}
	dest, err := a.open.Destination(ctx, c, d)
	if err != nil {
		return nil, nil, history.Overflow{}, err
	}
	m, err := pipeline.Recall(ctx, dest, of)
	last, err2 := history.LastPasses(ctx, dest, of)
	since, err3 := history.Overflows(ctx, dest)
	var rest history.Overflow
	if at, ok := since[t.Name]; ok && err3 == nil {
		rest, err3 = history.ReadOverflow(ctx, dest, d.Name, t, at)
	}
	return m, last, rest, errors.Join(err, err2, err3, dest.Close())
}

// explanation is what `explain --json` prints.
type explanation struct {
	Stream    string             `json:"stream"`
	LearnedAt time.Time          `json:"learned_at,omitzero"`
	Kept      string             `json:"destination,omitempty"` // the destination that stores the convention
	Requests  int                `json:"requests"`              // requests that were needed to learn the convention
	Facts     []extract.Fact     `json:"facts"`
	YAML      string             `json:"yaml"`
	Proved    *history.LastPass  `json:"certificate,omitempty"` // certificate of the last pass
	Rest      []history.Overflow `json:"rest,omitempty"`        // members without a column, because of the column limit
}

func printKnowledge(a *app, k knowledge) error {
	if a.json {
		facts := k.facts()
		if facts == nil {
			facts = []extract.Fact{}
		}
		e := explanation{k.stream.Name, k.learned.LearnedAt, k.kept, k.learned.Requests, facts, k.yaml(), nil, k.rest}
		if k.proved.Run != "" {
			e.Proved = &k.proved
		}
		return render.NewEncoder(a.out).Encode(e)
	}
	switch {
	case k.learned.Of != "":
		fmt.Fprintf(a.out, "# %s: learned %s with %s, stored in %s\n", k.stream.Name,
			k.learned.LearnedAt.Local().Format(time.DateTime), render.Plural(k.learned.Requests, "request"), k.kept)
	case k.stream.Parent != "":
		fmt.Fprintf(a.out, "# %s: requested once per record of %s; its format is learned with the first record\n", k.stream.Name, k.stream.Parent)
	default:
		fmt.Fprintf(a.out, "# %s: nothing learned yet; run `penstock discover %s` or sync it\n", k.stream.Name, k.stream.Name)
	}
	printFacts(a.out, "# ", k.facts())
	for _, o := range k.rest {
		o.Print(a.out)
	}
	k.proved.Print(a.out)
	_, err := fmt.Fprint(a.out, k.yaml())
	return err
}
