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
	"github.com/penstock-data/penstock/cmd/internal/serve/receive"
	"github.com/penstock-data/penstock/cmd/internal/signature"
	"github.com/penstock-data/penstock/state"
)

// learnFlags are the command line's words for learning a scheme.
type learnFlags struct {
	yes     bool
	without []int64
}

func (a *app) webhooksLearnCmd() *cobra.Command {
	var f learnFlags
	cmd := &cobra.Command{
		Use:   "learn [SOURCE]",
		Short: "find out how deliveries are signed, and keep it",
		Long: `Finds out how the platform signs its deliveries, from those that ` + "`penstock serve`" + `
has captured for a source whose scheme is learn: at least three with different
bodies, of the last 24 hours. Every scheme that it can think of is tried with the
configured secrets; one is taken only if it alone verifies all deliveries, and
refuses each of them with any bit changed.

What was found is printed as YAML that can be pasted below webhooks in
pipelines.yaml. Once confirmed it is also kept in the state folder, where serve
finds it within seconds, and the captured deliveries become events. A scheme in
pipelines.yaml always wins.`,
		Example: `  penstock webhooks learn
  penstock webhooks learn main --yes
  penstock webhooks learn main --without 7,12`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			s, err := learning(c, args)
			if err != nil {
				return err
			}
			return a.learn(cmd.Context(), c, s, f)
		},
	}
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.Flags().Int64SliceVar(&f.without, "without", nil, "`numbers` of captured deliveries to leave out, forged ones")
	return cmd
}

// learning is the source that args leave to choose, whose scheme is not named.
func learning(c *config.Config, args []string) (config.Source, error) {
	var all []config.Source
	var names []string
	for _, s := range c.Sources {
		if s.Webhooks != nil && (len(args) == 0 || s.Name == args[0]) {
			all, names = append(all, s), append(names, s.Name)
		}
	}
	switch {
	case len(all) == 0:
		return config.Source{}, usage("`webhooks: {secret: …}` below a source has it take them",
			"no source in %s that takes webhooks", strings.Join(append([]string{c.File}, args...), " "))
	case len(all) > 1:
		return config.Source{}, usage("", "learn for which source? %s has %s", c.File, strings.Join(names, ", "))
	case len(all[0].Webhooks.Schemes) > 0:
		return config.Source{}, usage("`scheme: learn` has deliveries captured", "source %s has its scheme in %s; there is nothing to learn", names[0], c.File)
	}
	return all[0], nil
}

// learnReport is what `webhooks learn --json` prints.
type learnReport struct {
	Source   string `json:"source"`
	Captured int    `json:"captured"` // deliveries
	Judged   int    `json:"judged"`   // of them, with the signature header
	Bodies   int    `json:"bodies"`   // different ones
	Tried    int    `json:"tried"`    // schemes
	Secret   string `json:"secret"`   // label of the one that signs
	Timed    bool   `json:"timed"`    // a time is signed
	Replays  string `json:"replays"`  // what protects against deliveries that are sent again
	Late     int    `json:"late"`     // deliveries older than the window
	Scheme   string `json:"scheme"`   // as YAML
	Pinned   string `json:"pinned"`   // the file
	Events   *int   `json:"events"`   // that deliveries became; null where serve makes them
}

// learn finds the scheme, shows it, and keeps it if that is wanted.
func (a *app) learn(ctx context.Context, c *config.Config, s config.Source, f learnFlags) error {
	samples, captures, err := a.captured(ctx, c, s, f.without)
	if err != nil {
		return err
	}
	w := s.Webhooks
	found, err := signature.Learn(samples, signature.Hints{Header: w.Header, Keys: w.Keys, PublicURL: w.PublicURL})
	if err != nil {
		return unlearned(s, found, captures, err)
	}
	text := pinText(s.Name, found, time.Now())
	if _, err := verifiers(c, map[string][]byte{s.Name: []byte(text)}); err != nil {
		return err
	}
	if err := a.say("%s", learnedText(w, found, text)); err != nil {
		return err
	}
	if err := a.sure(ctx, f.yes, fmt.Sprintf("verify deliveries of %s with it from now on?", s.Name)); err != nil {
		return err
	}
	if err := a.pin(ctx, c, s.Name, []byte(text)); err != nil {
		return fmt.Errorf("keep learned scheme: %w", err)
	}
	events, err := a.adoptNow(ctx, c, s.Name)
	if err != nil {
		return err
	}
	return a.tellLesson(learnReport{s.Name, len(captures), found.Judged, found.Bodies, found.Tried, found.Label, found.Timed(), found.Scheme.Replays(), found.Late,
		found.Scheme.YAML(), pinPlace(c, s.Name), events})
}

// pin keeps the scheme that was learned for a source in the place of the one before.
func (a *app) pin(ctx context.Context, c *config.Config, source string, text []byte) error {
	notes := a.stateOf(c).Notes()
	was, err := notes.Note(ctx, pinName(source))
	if err != nil {
		return err
	}
	return notes.SetNote(ctx, pinName(source), was, text)
}

// captured are the deliveries to learn from.
func (a *app) captured(ctx context.Context, c *config.Config, s config.Source, without []int64) ([]signature.Sample, []state.Event, error) {
	none := hinted(fmt.Errorf("learn %s: nothing was captured in the last 24 hours", s.Name),
		"have the platform deliver to /webhooks/"+s.Name+" while `penstock serve` runs; three events are enough")
	inbox, err := a.stateOf(c).ReadInbox(ctx)
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

// unlearned says why nothing was learned, and what the causes mostly are.
func unlearned(s config.Source, f signature.Finding, captures []state.Event, why error) error {
	err := fmt.Errorf("learn %s: %w", s.Name, why)
	switch {
	case errors.Is(why, signature.ErrFew):
		return &failure{err: fmt.Errorf("%w: %d so far, want %d", err, f.Bodies, signature.MinBodies),
			hint: "they are kept meanwhile; run this again once there are more", code: exitPartial}
	case errors.Is(why, signature.ErrAmbiguous):
		var all []string
		for _, o := range f.Others {
			all = append(all, indented("scheme:\n"+indented(o.YAML())))
		}
		return hinted(err, "ask the platform which one it means, and put that into the configuration:\n"+strings.Join(all, "  or\n"))
	case f.Partial >= signature.MinBodies:
		var numbers []string
		for _, i := range f.Failing {
			numbers = append(numbers, fmt.Sprint(captures[i].Ordinal))
		}
		return hinted(fmt.Errorf("%w; one verifies %d of %d deliveries", err, f.Partial, f.Judged),
			"the others may be forged or of another secret: add the secret, or leave them out with --without "+strings.Join(numbers, ","))
	}
	return hinted(fmt.Errorf("%w; tried %d over %s", err, f.Tried, plural(f.Judged, "webhook")), `the usual causes:
  the secret is not that of this endpoint
  a proxy in between rewrites the body or drops headers
  the platform signs in a way that is not known here: a scheme block, or a public_key, in the configuration may say how`)
}

// pinText is a learned scheme as its file has it, and as it can be pasted.
func pinText(source string, f signature.Finding, now time.Time) string {
	return fmt.Sprintf("# how deliveries of %s are signed, learned from %s on %s\nscheme:\n%s",
		source, plural(f.Judged, "webhook"), now.UTC().Format(time.DateOnly), indented(f.Scheme.YAML()))
}

// learnedText is what a person is shown of a finding.
func learnedText(w *config.Webhooks, f signature.Finding, text string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# one scheme of %d verifies all %d deliveries (%d different bodies), signed with secret %s\n", f.Tried, f.Judged, f.Bodies, f.Label)
	if !strings.EqualFold(f.Scheme.Header, w.Header) {
		fmt.Fprintf(&b, "# the signature is in %s; no delivery has %s\n", f.Scheme.Header, w.Header)
	}
	if f.Aside > 0 {
		fmt.Fprintf(&b, "# %s without that header will be dropped\n", plural(f.Aside, "webhook"))
	}
	fmt.Fprintf(&b, "# %s\n", f.Scheme.Replays())
	if f.Late > 0 {
		fmt.Fprintf(&b, "# %s came later than the window allows and will be dropped; a scheme with a wider past in the configuration keeps them\n", plural(f.Late, "webhook"))
	}
	return b.String() + text
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

// adoptNow makes events of the captured deliveries; nil where another process,
// which serves, has the inbox and does so.
func (a *app) adoptNow(ctx context.Context, c *config.Config, source string) (*int, error) {
	inbox, err := a.stateOf(c).OpenInbox(ctx, state.InboxOptions{})
	if errors.Is(err, state.ErrLocked) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := newReceiver(ctx, c, a.stateOf(c).Notes(), receive.Options{Inbox: inbox})
	n := 0
	if err == nil {
		n, err = r.Adopt(ctx, source)
	}
	return &n, errors.Join(err, inbox.Close())
}

func (a *app) tellLesson(l learnReport) error {
	switch {
	case a.json:
		return lineWriter(a.out).Encode(l)
	case l.Events == nil:
		return a.say("# kept in %s; serve makes events of the deliveries within seconds\n", l.Pinned)
	default:
		return a.say("# kept in %s; %s became events\n", l.Pinned, plural(*l.Events, "webhook"))
	}
}
