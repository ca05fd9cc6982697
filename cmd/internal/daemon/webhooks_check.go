package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/check"
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/signature"
)

// CheckWebhooks reports the signature scheme and the secrets that verify the deliveries of a source.
func CheckWebhooks(ctx context.Context, o *open.Opener, c *config.Config, source string, now time.Time) []check.Finding {
	s, _ := c.Source(source)
	w := s.Webhooks
	if w == nil {
		return nil
	}
	part := "source " + source + " webhooks"
	pins, err := ReadPins(ctx, c, o.State(c).Notes())
	if err == nil {
		_, err = Verifiers(c, pins)
	}
	if err != nil {
		return []check.Finding{check.Failed(ctx, part, err, "")}
	}
	keys, live := keyTerms(w.Keys, now)
	switch {
	case live == 0:
		return []check.Finding{check.Failed(ctx, part, failure.Usage("add the secret with which the platform signs its deliveries", "every secret has expired: %s", keys), "")}
	case len(w.Schemes) > 0:
		return []check.Finding{{Part: part, OK: true, Detail: fmt.Sprintf("scheme %s in %s; %s; %s", w.Schemes[0].Name, w.Schemes[0].Header, keys, w.Schemes[0].Replays())}}
	case pins[source] != nil:
		scheme, err := config.ParsePin(PinLocation(c, source), pins[source], w.Header)
		if err != nil {
			return []check.Finding{check.Failed(ctx, part, err, "")}
		}
		return []check.Finding{{Part: part, OK: true, Detail: "scheme learned; " + keys + "; " + scheme.Replays()}}
	}
	n, err := countCaptures(ctx, o, c, source)
	if err != nil {
		return []check.Finding{check.Failed(ctx, part, err, "")}
	}
	return []check.Finding{{Part: part, OK: true, Detail: fmt.Sprintf("scheme not known yet, %d deliveries captured; %s", n, keys),
		Hint: "`penstock webhooks learn " + source + "` finds the scheme from three deliveries"}}
}

// keyTerms describes the secrets: their names and when they expire. It also returns the number of secrets that have not
// expired.
func keyTerms(keys []signature.Key, now time.Time) (text string, live int) {
	var all []string
	for _, k := range keys {
		term := k.Label
		switch {
		case k.NotAfter.IsZero():
			live++
		case now.Before(k.NotAfter):
			live++
			term += " until " + k.NotAfter.UTC().Format(time.DateTime) + " UTC"
		default:
			term += " expired"
		}
		all = append(all, term)
	}
	return "secret " + strings.Join(all, ", "), live
}

// countCaptures returns the number of captured deliveries of a source.
func countCaptures(ctx context.Context, o *open.Opener, c *config.Config, source string) (int, error) {
	inbox, err := o.State(c).ReadInbox(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	all, err := inbox.Captures(ctx, source)
	return len(all), errors.Join(err, inbox.Close())
}
