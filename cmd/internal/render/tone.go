package render

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// The escape sequences of the colors, and of the default color.
const (
	green   = "\x1b[32m"
	yellow  = "\x1b[33m"
	red     = "\x1b[31m"
	noColor = "\x1b[0m"
)

// tones has the colors of states and verdicts. A word that is missing here has no color.
var tones = map[string]string{
	"ok": green, "complete": green, "proven": green, "consistent": green,
	"partial": yellow, "held": yellow, "lagging": yellow, "parked": yellow, "unavailable": yellow, "stopped": yellow,
	"paused": yellow, "drift": yellow, "warning": yellow, "unproven": yellow, "warn": yellow, "cancelled": yellow,
	"fail": red, "failed": red, "faulty": red, "contradicted": red, "blocking": red, "different": red, "equal": green, "unchecked": yellow, "warned": yellow,
}

// Colored reports whether text for w may have colors: w is a terminal, and the environment variable NO_COLOR is not set.
func Colored(w io.Writer) bool {
	if o, wrapped := w.(*Output); wrapped {
		w = o.Writer
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Tone returns a state or verdict in its color, if text for w may have colors. Spaces around the word are kept.
func Tone(w io.Writer, word string) string {
	color, known := tones[strings.ToLower(strings.TrimSpace(word))]
	if !known || !Colored(w) {
		return word
	}
	return color + word + noColor
}

// Label returns a state or verdict in its color, as the first column of a line.
func Label(w io.Writer, word string) string { return Tone(w, fmt.Sprintf("%-11s", word)) }

// Bad returns text in the color of failures, if text for w may have colors.
func Bad(w io.Writer, text string) string {
	if !Colored(w) {
		return text
	}
	return red + text + noColor
}
