// Package render prints results: tables, summaries of runs, progress, and the data dictionary. Its functions take
// values and a writer.
package render

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-data/penstock/state/plainerror"
)

// Hint prints a hint, with the text indent before each line. The commands in the hint name the configuration file.
func Hint(w io.Writer, indent, hint, file string) error {
	hint = Suggest(hint, file)
	_, err := fmt.Fprintf(w, "%shint: %s\n", indent, strings.ReplaceAll(hint, "\n", "\n"+indent+"  "))
	return err
}

// Printable escapes control characters, so that text is safe for a terminal and a log. If the parameter lines is true,
// it keeps newlines.
func Printable(s string, lines bool) string {
	clean := func(r rune) bool {
		return r < ' ' && !(lines && r == '\n') || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
	}
	if !strings.ContainsFunc(s, clean) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !clean(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteByte(' ')
		default:
			fmt.Fprintf(&b, `\x%02x`, r)
		}
	}
	return b.String()
}

// Grouped formats 1234567 as 1,234,567.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Plural formats n and a noun: 1 stream, 2 streams.
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Grouped(int64(n)) + " " + noun
}

// Brief formats a duration with few digits.
func Brief(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return plainerror.Duration(d.Round(time.Second))
}

// NewEncoder returns an encoder that writes one JSON value per line.
func NewEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// EncodeLines writes each value as JSON on its own line.
func EncodeLines[T any](w io.Writer, all []T) error {
	enc := NewEncoder(w)
	for _, v := range all {
		if err := enc.Encode(v); err != nil {
			return err
		}
	}
	return nil
}

// SQLName quotes any text as an SQL identifier.
func SQLName(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
