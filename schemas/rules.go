package schemas

import (
	"fmt"
	"io"
	"log/slog"
)

// Rules say what becomes of a stream's records on their way into tables. The
// zero value changes nothing.
//
// Columns are named by their path from the record, as in [Stream].Types:
// billing_address__city, items__unit_price. What is said of an object or of a
// list of objects is said of everything in it.
type Rules struct {
	Select   []string          // the columns to load; nil: all of them. The key is always loaded
	Rename   map[string]string // what a column is called in its table, by path
	Masks    []MaskRule        // of several that name a column the last one decides
	Filter   []Condition       // what a record must meet, all of it, to be loaded
	Contract Contract
	MaskKey  MaskKey // of masks with a key
}

// MaskRule is a mask and the columns it is for.
type MaskRule struct {
	// Column is a column's path. Where Exact is not set it may hold *, for any
	// letters, and without __ it names the last part of a path as well: email
	// is also customer__email.
	Column string
	Exact  bool
	Mask   Mask
}

// Actions of a [Mask].
const (
	MaskKeep    = "keep"    // nothing: what a weaker rule says does not hold
	MaskDrop    = "drop"    // the column is not loaded
	MaskHMAC    = "hmac"    // HMAC-SHA256 with the pipeline's key: equal values stay equal, nobody else can compute them
	MaskHash    = "hash"    // SHA-256: equal values stay equal, and can be guessed by whoever has a list of candidates
	MaskRedact  = "redact"  // one text for every value
	MaskEmail   = "email"   // the domain stays
	MaskPartial = "partial" // the last characters stay
	MaskRound   = "round"   // numbers to a power of ten, dates to their month
)

// Mask is what is stored in place of a value. Parameters that are not set have
// the values given here.
type Mask struct {
	Action   string
	Encoding string // of hmac and hash: hex or base64url; hex
	With     string // of redact: the text; [redacted]
	Keep     int    // of partial: how many characters stay, at most half of them; 4
	To       string // of round: a power of ten, day, month or year; numbers are rounded to 100, dates to the month
}

// Condition is one test of a filter: exactly one of the others beside Column is
// set. Values are compared as what they spell: numbers by value, dates and
// instants in time, true and false with 1 and 0 as well, everything else as text.
// A value that is not of the limit's kind, as none at all, is neither above nor
// below it, nor equal to it.
type Condition struct {
	Column   string
	In       []string
	NotIn    []string // none at all is not among them
	Min, Max *string  // inclusive
	Null     *bool
}

// Policy says what becomes of what does not fit a table as it is.
type Policy string

// The policies. The zero value is Evolve.
const (
	Evolve       Policy = "evolve"        // the table grows
	Freeze       Policy = "freeze"        // the stream stops, with the difference
	DiscardRow   Policy = "discard_row"   // the record is kept among the rejects instead
	DiscardValue Policy = "discard_value" // the value is kept among the rejects, the record loaded without it
)

// Contract is what may happen to the tables of a stream that was loaded before.
type Contract struct {
	Tables  Policy // a table that is not there yet
	Columns Policy // a column that a table does not have
	Types   Policy // a value that its column cannot hold
}

// MaskKey is the key of [MaskHMAC]. However it is printed, marshalled or
// logged, it reads [redacted]. // Invariant 5
type MaskKey string

const redacted = "[redacted]"

// Reveal returns the key itself.
func (k MaskKey) Reveal() string { return string(k) }

// Format writes [redacted], whatever the verb.
func (k MaskKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns [redacted].
func (k MaskKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns [redacted].
func (k MaskKey) LogValue() slog.Value { return slog.StringValue(redacted) }
