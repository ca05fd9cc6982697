package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/cmd/internal/serve/receive"
	"github.com/penstock-data/penstock/cmd/internal/signature"
	"github.com/penstock-data/penstock/state"
)

// learnFlags are the flags of webhooks learn.
type learnFlags struct {
	yes     bool
	without []int64
}

func webhooksLearnCmd(a *app) *cobra.Command {
	var f learnFlags
	cmd := &cobra.Command{
		Use:   "learn [SOURCE]",
		Short: "find out how deliveries are signed, and store the scheme",
		Long: `Finds out how the platform signs its deliveries. It uses the deliveries that
` + "`penstock serve`" + ` has captured for a source with scheme: learn. It needs at least three
deliveries with different bodies, from the last 24 hours. It tries all known schemes with
the configured secrets. A scheme is accepted only if it verifies all deliveries and no
other scheme does. It must also reject each delivery in which one bit of a signed part was
changed.

The scheme is printed as YAML to paste under webhooks in pipelines.yaml. After you
confirm, it is also stored in the state, where serve finds it within seconds, and
the captured deliveries become events. A scheme in pipelines.yaml takes precedence.`,
		Example: `  penstock webhooks learn
  penstock webhooks learn main --yes
  penstock webhooks learn main --without 7,12`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.open.Load()
			if err != nil {
				return err
			}
			s, err := learning(c, args)
			if err != nil {
				return err
			}
			return learnScheme(cmd.Context(), a, c, s, f)
		},
	}
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask for confirmation")
	cmd.Flags().Int64SliceVar(&f.without, "without", nil, "`numbers` of captured deliveries to exclude, such as forged ones")
	cmd.Flags().Lookup("without").DefValue = "" // the help would print (default [])
	return cmd
}

// learning() returns the source that the arguments select. It returns an error if no source or several sources match,
// or if the scheme of the source is configured and there is nothing to learn.
func learning(c *config.Config, args []string) (config.Source, error) {
	if err := knownSource(c, args); err != nil {
		return config.Source{}, err
	}
	var all []config.Source
	var names []string
	for _, s := range c.Sources {
		if s.Webhooks != nil && (len(args) == 0 || s.Name == args[0]) {
			all, names = append(all, s), append(names, s.Name)
		}
	}
	switch {
	case len(all) == 0:
		return config.Source{}, failure.Usage("configure `webhooks: {secret: …}` under a source",
			"no source in %s receives webhooks", strings.Join(append([]string{c.File}, args...), ", source "))
	case len(all) > 1:
		return config.Source{}, failure.Usage("", "name a source: %s has %s", c.File, strings.Join(names, ", "))
	case len(all[0].Webhooks.Schemes) > 0:
		return config.Source{}, failure.Usage("set `scheme: learn` to capture deliveries", "the scheme of source %s is configured in %s; there is nothing to learn", names[0], c.File)
	}
	return all[0], nil
}

// learnReport is what `webhooks learn --json` prints.
type learnReport struct {
	Source   string `json:"source"`
	Captured int    `json:"captured"` // number of captured deliveries
	Judged   int    `json:"judged"`   // number of captured deliveries with the signature header
	Bodies   int    `json:"bodies"`   // number of distinct bodies
	Tried    int    `json:"tried"`    // number of schemes that were tried
	Secret   string `json:"secret"`   // label of the secret with which the platform signs
	Timed    bool   `json:"timed"`    // a time is part of the signed content
	Replays  string `json:"replays"`  // how replayed deliveries are recognized, in words
	Late     int    `json:"late"`     // number of deliveries that arrived later than the scheme's time window allows
	Scheme   string `json:"scheme"`   // as YAML
	Pinned   string `json:"pinned"`   // where the learned scheme is stored
	Events   *int   `json:"events"`   // number of events that were made from the deliveries; null if serve makes the events
}

// learnScheme finds the scheme, prints it, and stores it after confirmation.
func learnScheme(ctx context.Context, a *app, c *config.Config, s config.Source, f learnFlags) error {
	samples, captures, err := capturedSamples(ctx, a, c, s, f.without)
	if err != nil {
		return err
	}
	w := s.Webhooks
	found, err := signature.Learn(samples, signature.Hints{Header: w.Header, Keys: w.Keys, PublicURL: w.PublicURL})
	if err != nil {
		return unlearned(s, found, captures, err)
	}
	text := pinText(s.Name, found, time.Now())
	if _, err := daemon.Verifiers(c, map[string][]byte{s.Name: []byte(text)}); err != nil {
		return err
	}
	if err := a.say("%s", learnedText(w, found, text)); err != nil {
		return err
	}
	if err := a.confirm(ctx, f.yes, fmt.Sprintf("verify deliveries of %s with this scheme from now on?", s.Name)); err != nil {
		return err
	}
	if err := storeScheme(ctx, a, c, s.Name, []byte(text)); err != nil {
		return fmt.Errorf("store learned scheme: %w", err)
	}
	events, err := adoptNow(ctx, a, c, s.Name)
	if err != nil {
		return err
	}
	return printLearned(a, learnReport{s.Name, len(captures), found.Judged, found.Bodies, found.Tried, found.Label, found.Timed(), found.Scheme.Replays(), found.Late,
		found.Scheme.YAML(), daemon.PinLocation(c, s.Name), events})
}

// storeScheme stores the learned scheme of a source. It replaces a scheme that was learned before.
func storeScheme(ctx context.Context, a *app, c *config.Config, source string, text []byte) error {
	notes := a.open.State(c).Notes()
	was, err := notes.Note(ctx, daemon.PinName(source))
	if err != nil {
		return err
	}
	return notes.SetNote(ctx, daemon.PinName(source), was, text)
}

// capturedSamples returns the captured deliveries, except those that the user has excluded by their ordinals.
func capturedSamples(ctx context.Context, a *app, c *config.Config, s config.Source, without []int64) ([]signature.Sample, []state.Event, error) {
	none := failure.Hinted(fmt.Errorf("learn %s: nothing was captured in the last 24 hours", s.Name),
		"let the platform deliver to /webhooks/"+s.Name+" while `penstock serve` runs; three events are enough")
	inbox, err := a.open.State(c).ReadInbox(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, none
	}
	if err != nil {
		return nil, nil, err
	}
	deliveries, captures, err := receive.Captured(ctx, inbox, s.Name)
	if err := errors.Join(err, inbox.Close()); err != nil {
		return nil, nil, err
	}
	var samples []signature.Sample
	var kept []state.Event
	for i, e := range captures {
		if !slices.Contains(without, e.Ordinal) {
			samples, kept = append(samples, signature.Sample{Delivery: deliveries[i], Received: e.Received}), append(kept, e)
		}
	}
	if len(samples) == 0 {
		return nil, nil, none
	}
	return samples, kept, nil
}

// unlearned() returns the error for the user if nothing was learned. The error says why, and the hint names the usual
// causes.
func unlearned(s config.Source, f signature.Finding, captures []state.Event, why error) error {
	err := fmt.Errorf("learn %s: %w", s.Name, why)
	switch {
	case errors.Is(why, signature.ErrFew):
		return &failure.Error{Err: fmt.Errorf("%w: %d so far, want %d", err, f.Bodies, signature.MinBodies),
			Hint: "captured deliveries are kept; run this again when there are more", Code: failure.ExitPartial}
	case errors.Is(why, signature.ErrAmbiguous):
		var all []string
		for _, o := range f.Others {
			all = append(all, indented("scheme:\n"+indented(o.YAML())))
		}
		// Cause: several schemes verify the captured deliveries
		return failure.Hinted(err, "find out which of these schemes the platform uses, and put it into the configuration:\n"+strings.Join(all, "  or\n"))
	case f.Partial >= signature.MinBodies:
		var numbers []string
		for _, i := range f.Failing {
			numbers = append(numbers, fmt.Sprint(captures[i].Ordinal))
		}
		return failure.Hinted(fmt.Errorf("%w; one scheme verifies %d of %d deliveries", err, f.Partial, f.Judged),
			"the others may be forged or signed with another secret: add the secret, or exclude them with --without "+strings.Join(numbers, ","))
	}
	return failure.Hinted(fmt.Errorf("%w; tried %s on %s", err, render.Plural(f.Tried, "scheme"), render.Plural(f.Judged, "webhook")), `usual causes:
  the secret is not that of this endpoint
  a proxy rewrites the body or drops headers
  the platform signs in a way that penstock does not know: configure it with a scheme block or a public_key`)
}

// pinText returns a learned scheme as YAML. This text is stored. The user can also paste it into the configuration.
func pinText(source string, f signature.Finding, now time.Time) string {
	return fmt.Sprintf("# how deliveries of %s are signed, learned from %s on %s\nscheme:\n%s",
		source, render.Plural(f.Judged, "webhook"), now.UTC().Format(time.DateOnly), indented(f.Scheme.YAML()))
}

// learnedText describes a found scheme.
func learnedText(w *config.Webhooks, f signature.Finding, text string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# of %d possible schemes, only one verifies all %d deliveries (%d different bodies), signed with secret %s\n", f.Tried, f.Judged, f.Bodies, f.Label)
	if !strings.EqualFold(f.Scheme.Header, w.Header) {
		fmt.Fprintf(&b, "# the signature is in %s; no delivery has %s\n", f.Scheme.Header, w.Header)
	}
	if f.Aside > 0 {
		fmt.Fprintf(&b, "# %s without the signature header will be dropped\n", render.Plural(f.Aside, "webhook"))
	}
	fmt.Fprintf(&b, "# %s\n", f.Scheme.Replays())
	if f.Late > 0 {
		fmt.Fprintf(&b, "# %s arrived later than the window allows and will be dropped; to keep them, configure the scheme with a longer `past`\n", render.Plural(f.Late, "webhook"))
	}
	return b.String() + text
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

// adoptNow turns the captured deliveries into events, and returns the number of events. If serve is running and has
// the inbox open, adoptNow returns nil, because then serve makes the events.
func adoptNow(ctx context.Context, a *app, c *config.Config, source string) (*int, error) {
	inbox, err := a.open.State(c).OpenInbox(ctx, state.InboxOptions{})
	if errors.Is(err, state.ErrLocked) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := daemon.NewReceiver(ctx, c, a.open.State(c).Notes(), receive.Options{Inbox: inbox})
	n := 0
	if err == nil {
		n, err = r.Adopt(ctx, source)
	}
	return &n, errors.Join(err, inbox.Close())
}

func printLearned(a *app, l learnReport) error {
	switch {
	case a.json:
		return render.NewEncoder(a.out).Encode(l)
	case l.Events == nil:
		return a.say("# stored in %s; serve turns the deliveries into events within seconds\n", l.Pinned)
	default:
		return a.say("# stored in %s; %s became events\n", l.Pinned, render.Plural(*l.Events, "webhook"))
	}
}
