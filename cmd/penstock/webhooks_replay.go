package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/state"
)

func webhooksReplayCmd(a *app) *cobra.Command {
	k := eventFilter{limit: maxReplay}
	cmd := &cobra.Command{
		Use:   "replay [ORDINAL]…",
		Short: "apply events in the inbox again",
		Long: `Appends events to the end of the inbox once more, and applies them. You choose the events
by ordinal, by id or by a range of ordinals, or you choose all that were given up. The
records that the events name are requested from the source again, so a second replay
changes nothing.

While penstock serve runs, only serve can use the inbox: use its webhooks page instead.

Exit codes: 0 all were applied, 75 some are left for serve or a sync.`,
		Example: `  penstock webhooks replay 17 18
  penstock webhooks replay --dead
  penstock webhooks replay --from 100 --to 200`,
		RunE: func(cmd *cobra.Command, args []string) error { return replayEvents(cmd.Context(), a, k, args) },
	}
	f := cmd.Flags()
	f.StringVar(&k.source, "source", "", "only events of this `source`")
	f.StringVar(&k.id, "id", "", "only events with this `id`")
	f.Int64Var(&k.from, "from", 0, "start at this `ordinal`")
	f.Int64Var(&k.to, "to", 0, "end at this `ordinal`")
	f.BoolVar(&k.dead, "dead", false, "only events that were given up")
	return cmd
}

// maxReplay is the largest number of events in one replay.
const maxReplay = 10_000

func replayEvents(ctx context.Context, a *app, k eventFilter, args []string) error {
	if len(args) == 0 && !k.dead && k.id == "" && k.from == 0 && k.to == 0 {
		return failure.Usage("`penstock webhooks list` lists events", "name events by ordinal, --id, --from and --to, or --dead")
	}
	if len(args) > 0 && (k.dead || k.id != "" || k.source != "" || k.from != 0 || k.to != 0) {
		return failure.Usage("", "name the events by ordinal, or select them with flags, not both")
	}
	if err := k.check(); err != nil {
		return err
	}
	c, err := a.open.Load()
	if err != nil {
		return err
	}
	if _, err := k.sources(c); err != nil {
		return err
	}
	b, err := a.open.State(c).OpenInbox(ctx, state.InboxOptions{})
	if errors.Is(err, state.ErrLocked) {
		// Cause: another process has the inbox open
		return failure.Hinted(err, "`penstock serve` has the inbox open; replay the events on its webhooks page, or stop `penstock serve` first")
	}
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	defer b.Close()
	ordinals, err := ordinalsOf(ctx, a, c, b, k, args)
	if err != nil {
		return err
	}
	if k.id != "" && len(ordinals) == 0 {
		if k.source != "" || k.from != 0 || k.to != 0 || k.dead { // the inbox may have an event with this id that these flags leave out
			return failure.Hinted(fmt.Errorf("no event matches --id %q and the other flags", k.id), "`penstock webhooks list` lists events")
		}
		return failure.Hinted(fmt.Errorf("the inbox has no event with the id %q", k.id), "`penstock webhooks list` lists events")
	}
	sources := map[string]bool{}
	for _, n := range ordinals {
		l, err := b.Event(ctx, n)
		if errors.Is(err, state.ErrNoEvent) {
			// Cause: the inbox has no event with this number
			return failure.Hinted(err, "the event never arrived, or is already in every destination: see the table _penstock_events")
		}
		if err == nil {
			_, err = b.AppendAgain(ctx, n)
		}
		if err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		sources[l.Source] = true
	}
	fmt.Fprintf(a.out, "%s appended to the inbox again\n", render.Plural(len(ordinals), "event"))
	return applyAll(ctx, a, c, b, sources)
}

// ordinalsOf returns the ordinals of the events to apply again.
func ordinalsOf(ctx context.Context, a *app, c *config.Config, b state.Inbox, k eventFilter, args []string) (all []int64, err error) {
	for _, arg := range args {
		n, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || n < 1 {
			return nil, failure.Usage("`penstock webhooks list` shows the ordinals", "%q is not an ordinal", arg)
		}
		all = append(all, n)
	}
	if len(args) > 0 {
		return all, nil
	}
	return keptEvents(ctx, c, b, k, func(l state.DeadLetter) int64 { return l.Ordinal })
}

// applyAll applies the waiting events of the sources, for each pipeline that reads these sources.
func applyAll(ctx context.Context, a *app, c *config.Config, b state.Inbox, sources map[string]bool) error {
	t, waits := daemon.NewInboxTrimmer(c), false
	for _, p := range c.Pipelines {
		for _, from := range p.From {
			if !sources[from.Text] {
				continue
			}
			left, err := applyOne(ctx, a, p.Name, t.Applier(a.executor(c), c, p.ForSource(from.Text), b))
			if err != nil {
				return err
			}
			waits = waits || left
		}
	}
	if waits {
		return failure.Exit(failure.ExitPartial)
	}
	return nil
}

// applyOne applies events until no event is left that can be applied now. It returns true if events still wait, or if
// streams must be read because of events.
func applyOne(ctx context.Context, a *app, pipeline string, x *execute.Applier) (waits bool, err error) {
	defer x.Close()
	applied := 0
	for {
		rep, err := x.ApplyOnce(ctx)
		if err != nil {
			return false, err
		}
		applied += rep.Applied
		if rep.Applied > 0 && rep.Waiting > 0 {
			continue
		}
		fmt.Fprintf(a.out, "%s: %d applied, %d waiting\n", pipeline, applied, rep.Waiting)
		if len(rep.Refresh) > 0 {
			again := fmt.Sprintf("penstock sync %s --stream %s", pipeline, strings.Join(rep.Refresh, " --stream "))
			fmt.Fprintf(a.out, "%s: streams must be read: %s\n", pipeline, render.Suggest(again, a.open.File))
		}
		return rep.Waiting > 0 || len(rep.Refresh) > 0, errors.Join(rep.Trouble)
	}
}
