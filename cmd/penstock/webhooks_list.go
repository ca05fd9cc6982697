package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// eventFilter selects events of the inbox.
type eventFilter struct {
	source   string
	from, to int64
	id       string
	dead     bool // only events that were given up
	limit    int  // maximum number of events
}

func webhooksListCmd(a *app) *cobra.Command {
	k := eventFilter{}
	cmd := &cobra.Command{
		Use:   "list [SOURCE]",
		Short: "list events in the inbox: events that wait, and events that were given up",
		Long: `Lists events in the inbox, the oldest first: those that are not yet in every
destination, and those that were given up after three tries, with the reason. Events
that are in every destination are removed from the inbox. The table _penstock_events keeps
them. How long is set by the key "keep" of the pipelines that read the source; the longest
time applies.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				k.source = args[0]
			}
			if err := k.check(); err != nil {
				return err
			}
			return listWebhooks(cmd.Context(), a, k)
		},
	}
	f := cmd.Flags()
	f.Int64Var(&k.from, "from", 0, "start at this `ordinal`")
	f.IntVarP(&k.limit, "number", "n", 100, "maximum `number` of events")
	f.BoolVar(&k.dead, "dead", false, "only events that were given up")
	return cmd
}

// check returns an error if the numbers of the filter select nothing.
func (k eventFilter) check() error {
	switch {
	case k.limit < 1:
		return failure.Usage("", "--number must be at least 1")
	case k.from < 0 || k.to < 0:
		return failure.Usage("`penstock webhooks list` shows the ordinals", "an ordinal cannot be negative")
	case k.to > 0 && k.from > k.to:
		return failure.Usage("", "--from %d is after --to %d", k.from, k.to)
	}
	return nil
}

// sources returns the selected sources.
func (k eventFilter) sources(c *config.Config) ([]string, error) {
	if k.source != "" {
		return []string{k.source}, knownSource(c, []string{k.source})
	}
	var all []string
	for _, s := range c.Sources {
		all = append(all, s.Name)
	}
	return all, nil
}

// shownEvent is an event in the form in which it is printed.
type shownEvent struct {
	Source   string    `json:"source"`
	Ordinal  int64     `json:"ordinal"`
	Received time.Time `json:"received_at"`
	Type     string    `json:"type"`
	ID       string    `json:"id"`
	State    string    `json:"state"`
	Streams  []string  `json:"streams"`
	Key      string    `json:"key,omitempty"`
	Scheme   string    `json:"scheme"`
	Bytes    int       `json:"bytes"`
	Reason   string    `json:"reason,omitempty"`
}

func listWebhooks(ctx context.Context, a *app, k eventFilter) error {
	c, err := a.open.LoadNames()
	if err != nil {
		return err
	}
	if _, err := k.sources(c); err != nil {
		return err
	}
	b, err := a.open.State(c).ReadInbox(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return printEvents(a, nil)
	}
	if err != nil {
		return fmt.Errorf("list webhooks: %w", err)
	}
	defer b.Close()
	read, err := readersOf(c, b)
	if err != nil {
		return err
	}
	all, err := keptEvents(ctx, c, b, k, func(l state.DeadLetter) shownEvent { return shownAs(read[l.Source].Read(l.Event), l.Reason) })
	if err != nil {
		return fmt.Errorf("list webhooks: %w", err)
	}
	return printEvents(a, all)
}

// keptEvents returns the selected events of the inbox, sorted by ordinal, in the form that form() gives them. It reads
// the inbox in pages, and the events of only one page are in memory at once. // Invariant 6
func keptEvents[T any](ctx context.Context, c *config.Config, b state.Inbox, k eventFilter, form func(state.DeadLetter) T) ([]T, error) {
	sources, err := k.sources(c)
	if err != nil {
		return nil, err
	}
	kept := map[int64]T{}
	keep := func(l state.DeadLetter) {
		if _, dead := kept[l.Ordinal]; !dead { // Events returns dead letters too, but without the reason
			kept[l.Ordinal] = form(l)
		}
	}
	for _, source := range sources {
		err := k.each(func(after int64) ([]state.DeadLetter, error) { return b.DeadLetters(ctx, source, after, k.limit) }, keep)
		if err == nil && !k.dead {
			err = k.each(func(after int64) ([]state.DeadLetter, error) {
				events, err := b.Events(ctx, source, after, k.limit)
				page := make([]state.DeadLetter, len(events))
				for i, e := range events {
					page[i].Event = e
				}
				return page, err
			}, keep)
		}
		if err != nil {
			return nil, err
		}
	}
	var all []T
	for _, n := range slices.Sorted(maps.Keys(kept))[:min(len(kept), k.limit)] {
		all = append(all, kept[n])
	}
	return all, nil
}

// each reads events page by page, and calls keep() for those that the filter selects, at most for k.limit events. The
// store returns only some of the events at a time, so the filter may select an event that is not in the first page.
func (k eventFilter) each(read func(after int64) ([]state.DeadLetter, error), keep func(state.DeadLetter)) error {
	for after, n := k.from-1, 0; ; {
		page, err := read(after)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, l := range page {
			if n == k.limit || k.to > 0 && l.Ordinal > k.to {
				return nil
			}
			if k.id == "" || l.ID == k.id {
				keep(l)
				n++
			}
			after = l.Ordinal
		}
	}
}

// readersOf returns a reader for each source. A reader finds out to which streams an event belongs.
func readersOf(c *config.Config, b state.Inbox) (map[string]*extract.Inbox, error) {
	known, err := schemas.LoadEvents()
	if err != nil {
		return nil, err
	}
	read := map[string]*extract.Inbox{}
	for _, s := range c.Sources {
		var streams []schemas.Stream
		for _, p := range c.Pipelines {
			if !p.Reads(s.Name) {
				continue
			}
			chosen, err := c.Select(p, nil)
			if err != nil {
				return nil, err
			}
			streams = append(streams, open.Plain(chosen)...)
		}
		read[s.Name] = extract.NewInbox(b, s.Name, known, streams)
	}
	return read, nil
}

func shownAs(d extract.Delivery, reason string) shownEvent {
	e := shownEvent{
		Source: d.Source, Ordinal: d.Ordinal, Received: d.Received, Type: d.Type, ID: d.ID,
		State: "waiting", Streams: []string{}, Scheme: d.Scheme, Bytes: len(d.Body), Reason: reason,
	}
	for _, h := range d.Hints {
		e.Streams, e.Key = append(e.Streams, h.Stream), h.Key
	}
	switch {
	case reason != "":
		e.State = "given up"
	case d.Unparsed:
		e.State = "unparsed"
	case d.Unmapped:
		e.State = "unmapped"
	case d.Conflict:
		e.State = "conflict"
	}
	return e
}

func printEvents(a *app, all []shownEvent) error {
	if a.json {
		out := render.NewEncoder(a.out)
		for _, e := range all {
			if err := out.Encode(e); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		fmt.Fprintln(a.out, "no events")
		return nil
	}
	g := render.NewTable("#ordinal", "received", "type", "id", "state", "streams", "record", "reason")
	for _, e := range all {
		g.Add(e.Ordinal, e.Received, e.Type, e.ID, e.State, strings.Join(e.Streams, ", "), e.Key, e.Reason)
	}
	g.Render(a.out)
	return nil
}
