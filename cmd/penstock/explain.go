package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
)

func (a *app) explainCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "explain STREAM",
		Short: "what was learned or configured for the stream, and why, as YAML to paste",
		Long: `What was learned or configured for the stream, and why, as YAML that can be pasted
into pipelines.yaml: it then reads the stream as it is read now. A line with + is
evidence, one with - a hypothesis that was given up. Below them stand the verdict
on the last pass, and the facts that it rests on. Nothing is asked of the
source; ` + "`penstock discover`" + ` does that.`,
		Example: "  penstock explain crm.leads",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			k, err := a.know(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return a.explain(k)
		},
	}
}

// know gathers what is held about a stream: of what destinations remember, the
// newest that is about the request it makes now.
func (a *app) know(ctx context.Context, c *config.Config, name string) (knowledge, error) {
	s, ok := c.Stream(name)
	k := knowledge{stream: s}
	if !ok || !s.Readable() {
		streams, err := c.Select(config.Pipeline{Name: "explain", From: []config.Ref{{Text: c.Sources[0].Name}}}, []string{name})
		if err != nil {
			return k, err
		}
		return k, usage("`penstock streams` lists them", "%q is %s; name one", name, plural(len(streams), "stream"))
	}
	for _, p := range c.Pipelines {
		if carried, err := c.Select(p, []string{name}); err != nil || len(carried) != 1 {
			continue
		}
		for _, to := range p.To {
			d, _ := c.Destination(to.Text)
			if len(p.From) > 0 {
				d = d.For(p.From[0].Text) // what sources answer is alike
			}
			m, last, rest, err := a.recall(ctx, c, d, p.Name, k.stream.Table)
			if err != nil {
				a.log.Warn("what it remembers is left out", "destination", d.Name, "error", err)
				continue
			}
			if rest.Records > 0 {
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

// recall is what a destination remembers of a pipeline's streams, the newest
// certificate of each, and what of one table is beyond the bound of columns; nothing
// where there is no destination yet.
func (a *app) recall(ctx context.Context, c *config.Config, d config.Destination, of string, t schemas.Table) (pipeline.Memories, map[string]proved, overflow, error) {
	p, err := placeOf(c, d)
	if err != nil {
		return nil, nil, overflow{}, err
	}
	if p.absent != nil && p.absent(d) != nil {
		return nil, nil, overflow{}, nil
	}
	dest, err := a.openDestination(ctx, c, d)
	if err != nil {
		return nil, nil, overflow{}, err
	}
	m, err := pipeline.Recall(ctx, dest, of)
	last, err2 := provedBy(ctx, dest, of)
	since, err3 := overflows(ctx, dest)
	var rest overflow
	if at, ok := since[t.Name]; ok && err3 == nil {
		rest, err3 = readOverflow(ctx, dest, d.Name, t, at)
	}
	return m, last, rest, errors.Join(err, err2, err3, dest.Close())
}

// explanation is what `explain --json` prints.
type explanation struct {
	Stream    string         `json:"stream"`
	LearnedAt time.Time      `json:"learned_at,omitzero"`
	Kept      string         `json:"destination,omitempty"` // which remembers it
	Requests  int            `json:"requests"`              // that it took
	Facts     []extract.Fact `json:"facts"`
	YAML      string         `json:"yaml"`
	Proved    *proved        `json:"certificate,omitempty"` // of the last pass
	Rest      []overflow     `json:"rest,omitempty"`        // what is beyond the bound of columns
}

func (a *app) explain(k knowledge) error {
	if a.json {
		facts := k.facts()
		if facts == nil {
			facts = []extract.Fact{}
		}
		e := explanation{k.stream.Name, k.learned.LearnedAt, k.kept, k.learned.Requests, facts, k.yaml(), nil, k.rest}
		if k.proved.Run != "" {
			e.Proved = &k.proved
		}
		return lineWriter(a.out).Encode(e)
	}
	switch {
	case k.learned.Of != "":
		fmt.Fprintf(a.out, "# %s: learned %s with %s, remembered by %s\n", k.stream.Name,
			k.learned.LearnedAt.Local().Format(time.DateTime), plural(k.learned.Requests, "request"), k.kept)
	case k.stream.Parent != "":
		fmt.Fprintf(a.out, "# %s: asked for with what each record of %s holds; how its answers are built shows with the first\n", k.stream.Name, k.stream.Parent)
	default:
		fmt.Fprintf(a.out, "# %s: nothing was learned of it yet; `penstock discover %s` or the first sync does\n", k.stream.Name, k.stream.Name)
	}
	printFacts(a.out, "# ", k.facts())
	for _, o := range k.rest {
		o.print(a.out, k.stream.Stream)
	}
	k.proved.print(a.out)
	_, err := fmt.Fprint(a.out, k.yaml())
	return err
}
