package schemas

import (
	"fmt"
	"io"
	"log/slog"
)

// Rules say what happens to a stream's records on their way into tables. The zero value changes nothing.
//
// A column is named by its path from the record, as in [Stream].Types: billing_address__city, items__unit_price. A
// rule for an object, or for an array of objects, applies to all members inside it.
type Rules struct {
	Select   []string          // columns to load; nil: all; the key is always loaded
	Rename   map[string]string // new names of columns, by path
	Masks    []MaskRule        // if several masks match a column, the last one applies
	Filter   []Condition       // a record is loaded only if it meets all of these conditions
	Contract Contract
	MaskKey  MaskKey // key of keyed masks
}

// MaskRule is a mask, and the pattern of the columns to which it applies.
type MaskRule struct {
	// Column is the path of a column. If Exact is false, a * in Column stands for any characters, and a path without __
	// also matches the last part of a longer path: email matches customer__email.
	Column string
	Exact  bool
	Mask   Mask
}

// Actions of a [Mask].
const (
	MaskKeep    = "keep"    // no mask; overrides masks earlier in the list
	MaskDrop    = "drop"    // the column is not loaded
	MaskHMAC    = "hmac"    // HMAC-SHA256 with the pipeline's key; equal values have equal results
	MaskHash    = "hash"    // SHA-256; equal values have equal results; anyone can find a value by hashing all candidates
	MaskRedact  = "redact"  // a fixed text
	MaskEmail   = "email"   // keeps the domain
	MaskPartial = "partial" // keeps the last characters
	MaskRound   = "round"   // rounds numbers to a power of ten, and dates and times to day, month or year
)

// Mask replaces a value. The comment of each parameter begins with the actions that use it.
type Mask struct {
	Action   string
	Encoding string // hmac and hash: hex or base64url; default hex
	With     string // redact: the fixed text; default [redacted]
	Keep     int    // partial: number of characters to keep, at most half of the text; default 4
	To       string // round: a power of ten, day, month or year; default 100 for numbers, month for dates
}

// Condition is one condition of a filter. Besides Column, exactly one field is set. Numbers, dates and times are
// compared by value. The values true and false equal 1 and 0. Everything else is compared as text. A missing value
// meets only two conditions: NotIn, and Null if it is true. If a value and a limit have different kinds, such as a text
// and a number, they are not equal, and neither is greater than the other.
type Condition struct {
	Column   string
	In       []string
	NotIn    []string // a missing value also meets this condition
	Min, Max *string  // inclusive bounds
	Null     *bool
}

// Policy says what happens to data that does not fit a table.
type Policy string

// The policies. The zero value is Evolve.
const (
	Evolve       Policy = "evolve"        // the table is extended
	Freeze       Policy = "freeze"        // the stream stops, and reports the difference
	DiscardRow   Policy = "discard_row"   // the record is stored in the rejects instead of the table
	DiscardValue Policy = "discard_value" // the value is stored in the rejects, and the record is loaded without it
)

// Contract says what happens if records do not fit the tables that a stream already has.
type Contract struct {
	Tables  Policy // if a new table is needed
	Columns Policy // if a new column is needed
	Types   Policy // if a column cannot store a value
}

// MaskKey is the key of [MaskHMAC]. Formatting, marshaling or logging it gives [redacted]. // Invariant 5
type MaskKey string

const redacted = "[redacted]"

// Reveal returns the real key.
func (k MaskKey) Reveal() string { return string(k) }

// Format writes [redacted] for every verb.
func (k MaskKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns [redacted].
func (k MaskKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns [redacted].
func (k MaskKey) LogValue() slog.Value { return slog.StringValue(redacted) }
