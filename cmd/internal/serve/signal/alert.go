package signal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kind is the kind of an alert.
type Kind string

// The kinds of alerts.
const (
	Failed       Kind = "failed"       // a run or one of its streams failed
	Late         Kind = "late"         // a run did not start when it was due
	Held         Kind = "held"         // a stream waits for a decision of a person
	Drift        Kind = "drift"        // a source has changed
	CheckFailed  Kind = "check"        // a check of the data has failed
	Signature    Kind = "signature"    // deliveries are refused because their signatures do not match
	Contradicted Kind = "contradicted" // records are missing, according to the API's own total
	Access       Kind = "access"       // many wrong tokens were tried at the dashboard
	Grant        Kind = "grant"        // a sign-in cannot be used, or its renewal fails
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{Failed, Late, Held, Drift, CheckFailed, Signature, Contradicted, Access, Grant}
}

// topic is a kind of problem in one pipeline or source. All problems of a topic share one message.
type topic struct {
	Subject string `json:"subject"` // for example "pipeline nightly" or "source main"
	Kind    Kind   `json:"kind"`
}

var ofDashboard = topic{"dashboard", Access}

func ofPipeline(name string, k Kind) topic { return topic{"pipeline " + name, k} }
func ofSource(name string, k Kind) topic   { return topic{"source " + name, k} }

type condition struct {
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

// troubles are the problems of a topic, by stream and destination. The key "" is the run itself.
type troubles map[string]condition

// driftLasts is how long an alert about drift lasts. A run compares its data with the data of the run before. So only
// one run reports a drift, and no later run shows that the drift is over.
const driftLasts = 24 * time.Hour

func (ts troubles) signature() string {
	if len(ts) == 0 {
		return ""
	}
	h := sha256.New()
	for _, item := range slices.Sorted(maps.Keys(ts)) {
		fmt.Fprintf(h, "%s\x00%s\x00", item, withoutDigits(ts[item].Why))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, s)
}

// Limits of a message, so that it can be read on a phone.
const (
	mostItems   = 5   // problems that are listed per topic
	mostWhy     = 200 // longest reason, in bytes; a longer reason is cut
	mostMessage = 3000
)

func (t topic) text(ts troubles) string {
	if len(ts) == 0 {
		return fmt.Sprintf("%s: %s (resolved)", t.Subject, t.Kind)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", t.Subject, t.Kind)
	items := slices.Sorted(maps.Keys(ts))
	for i, item := range items {
		if i == mostItems {
			fmt.Fprintf(&b, "\n  and %d more", len(items)-i)
			break
		}
		why := clip(ts[item].Why, mostWhy)
		if item == "" {
			fmt.Fprintf(&b, "\n  %s", why)
			continue
		}
		fmt.Fprintf(&b, "\n  %s: %s", item, why)
	}
	return b.String()
}

func clip(s string, n int) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

func message(texts []string) string {
	var b strings.Builder
	for i, t := range texts {
		if b.Len()+len(t) > mostMessage && i > 0 {
			fmt.Fprintf(&b, "\nand %d more alerts", len(texts)-i)
			break
		}
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(t)
	}
	return b.String()
}
