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

// Kind is what an alert is about.
type Kind string

// The kinds of alerts.
const (
	Failed       Kind = "failed"       // a run, or a stream of it, did not do its work
	Late         Kind = "late"         // a run was not made when it was due
	Held         Kind = "held"         // a stream waits for a person
	Drift        Kind = "drift"        // a source is not as it was
	Signature    Kind = "signature"    // deliveries are refused: their signature does not fit
	Contradicted Kind = "contradicted" // a list's own total says that rows are missing
	Access       Kind = "access"       // many wrong tokens were tried at the dashboard
	Grant        Kind = "grant"        // a sign-in is of no use, or its renewal fails
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{Failed, Late, Held, Drift, Signature, Contradicted, Access, Grant} }

// topic is what is told as one: everything of one kind that is the matter with
// one pipeline, or with one source.
type topic struct {
	Subject string `json:"subject"` // "pipeline nightly", "source main"
	Kind    Kind   `json:"kind"`
}

// ofDashboard is what is the matter with the daemon's own routes.
var ofDashboard = topic{"dashboard", Access}

func ofPipeline(name string, k Kind) topic { return topic{"pipeline " + name, k} }
func ofSource(name string, k Kind) topic   { return topic{"source " + name, k} }

// condition is one thing that is the matter, since At.
type condition struct {
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

// troubles are what is the matter, by the stream they are about; "" is the run.
type troubles map[string]condition

// driftLasts is how long a drift is news. It is seen once: the next run compares
// with what this one has found.
const driftLasts = 24 * time.Hour

// signature tells one state of affairs from another: other streams are news, the
// same streams with other figures in their errors are not.
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

// Bounds of a message: a person reads it on a telephone.
const (
	mostItems   = 5   // of one topic
	mostWhy     = 200 // bytes of one reason
	mostMessage = 3000
)

// text tells a topic: what is the matter, or that nothing is any more.
func (t topic) text(ts troubles) string {
	if len(ts) == 0 {
		return fmt.Sprintf("%s: %s is over", t.Subject, t.Kind)
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

// clip is the first line of s, at most n bytes of it.
func clip(s string, n int) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// message is several topics as one text.
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
