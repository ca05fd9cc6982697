package schemas

import (
	"fmt"
	"io"
	"log/slog"
)

// Rules say what happens to a stream's records on their way into tables. The zero value changes nothing.
//
// Columns are named by their path from the record, as in [Stream].Types: billing_address__city, items__unit_price. A
// rule for an object or an array of objects applies to all members inside it.
type Rules struct {
	Select   []string          // columns to load; nil: all. The key is always loaded
	Rename   map[string]string // new names of columns, by path
	Masks    []MaskRule        // if several match a column, the last one applies
	Filter   []Condition       // conditions that a record must meet to be loaded, all of them
	Contract Contract
	MaskKey  MaskKey // key of keyed masks
}

// MaskRule is a mask with the columns that it applies to.
type MaskRule struct {
	// Column is a column's path. Unless Exact is set, it may contain *, which stands for any characters, and a path
	// without __ also matches the last part of a longer path: email matches customer__email.
	Column string
	Exact  bool
	Mask   Mask
}

// Actions of a [Mask].
const (
	MaskKeep    = "keep"    // no mask: overrides weaker rules
	MaskDrop    = "drop"    // the column is not loaded
	MaskHMAC    = "hmac"    // HMAC-SHA256 with the pipeline's key: equal values have equal results, which need the key to compute
	MaskHash    = "hash"    // SHA-256: equal values have equal results; a value can be found by trying candidates
	MaskRedact  = "redact"  // the same text for every value
	MaskEmail   = "email"   // keeps the domain
	MaskPartial = "partial" // keeps the last characters
	MaskRound   = "round"   // numbers to a power of ten; dates and times to day, month or year
)

// Mask replaces a value. The comments name the default of each parameter.
type Mask struct {
	Action   string
	Encoding string // for hmac and hash: hex or base64url; default hex
	With     string // for redact: the text; default [redacted]
	Keep     int    // for partial: number of characters to keep, but at most half of the text; default 4
	To       string // for round: a power of ten, day, month or year; default 100 for numbers, month for dates
}

// Condition is one test of a filter. Exactly one field other than Column is set. Values are compared by
// meaning: numbers by value, dates and times as times, true and false also with 1 and 0, all others as text. A
// missing value, or a value of another kind than the limit, is neither above nor below the limit, nor equal to it.
type Condition struct {
	Column   string
	In       []string
	NotIn    []string // a missing value meets this condition
	Min, Max *string  // inclusive
	Null     *bool
}

// Policy says what happens to data that does not fit a table.
type Policy string

// The policies. The zero value is Evolve.
const (
	Evolve       Policy = "evolve"        // the table is extended
	Freeze       Policy = "freeze"        // the stream stops, and reports the difference
	DiscardRow   Policy = "discard_row"   // the record is stored as a reject instead
	DiscardValue Policy = "discard_value" // the value is stored as a reject, and the record is loaded without it
)

// Contract says what happens if records do not fit the tables that a stream already has.
type Contract struct {
	Tables  Policy // a new table
	Columns Policy // a new column
	Types   Policy // a value that its column cannot store
}

// MaskKey is the key of [MaskHMAC]. It is printed, marshalled and logged as [redacted]. // Invariant 5
type MaskKey string

const redacted = "[redacted]"

// Reveal returns the key itself.
func (k MaskKey) Reveal() string { return string(k) }

// Format writes [redacted] for every verb.
func (k MaskKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns [redacted].
func (k MaskKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns [redacted].
func (k MaskKey) LogValue() slog.Value { return slog.StringValue(redacted) }
