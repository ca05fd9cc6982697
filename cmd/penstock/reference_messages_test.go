//go:build cgo && duckdb_arrow

package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hintArea is a section of the page about messages, with the files whose hints belong there.
type hintArea struct {
	title string
	files *regexp.Regexp
}

// hintAreas are the sections of the page about messages. The first match counts.
var hintAreas = []hintArea{
	{"Sources and credentials", regexp.MustCompile(`^cmd/penstock/(log|discover|preview|sources)|^cmd/internal/(check/base_url|open/source|execute/renamed|render/(remedy|forecast)|knowledge)`)},
	{"Webhooks", regexp.MustCompile(`^cmd/penstock/(webhooks|sandbox_webhook)|^cmd/internal/daemon/(receiver|webhooks)`)},
	{"Dashboard", regexp.MustCompile(`^cmd/penstock/(ui|health|serve)|^cmd/internal/(browse|daemon|serve)/`)},
	{"AI assistants", regexp.MustCompile(`^cmd/internal/assistant/`)},
	{"State", regexp.MustCompile(`^cmd/penstock/(state|migrate|worker)|^cmd/internal/open/(state|vault|owner)`)},
	{"Destinations and tables", regexp.MustCompile(`^cmd/penstock/(bucket|dest|duckdb|iceberg|mysql|parquet|postgres|sqlite|schema|views|query|docs)|^cmd/internal/(open/(dest|reader)|check/(destination|columns)|render/destination|history)|^load/`)},
	{"Imports", regexp.MustCompile(`^cmd/penstock/import|^cmd/internal/imports/`)},
	{"Runs and checks", regexp.MustCompile(`^cmd/penstock/(check|plan|sync|backfill|runs|diff|rejects|verify)|^cmd/internal/(check|execute)/`)},
	{"Command line and configuration", regexp.MustCompile(`^cmd/`)},
}

// messagesPage lists all hints in the code, by area.
func messagesPage(t *testing.T) string {
	t.Helper()
	areas := map[string][]hintInCode{}
	for _, h := range hintsInCode(t) {
		i := slices.IndexFunc(hintAreas, func(a hintArea) bool { return a.files.MatchString(h.file) })
		require.GreaterOrEqual(t, i, 0, "%s has hints and belongs to no area", h.file)
		areas[hintAreas[i].title] = append(areas[hintAreas[i].title], h)
	}
	b := &strings.Builder{}
	b.WriteString("# Messages\n\nThese are messages that have a hint, and what to do. `…` stands for a name, a number, or the cause. Begin with [Troubleshooting](../troubleshooting.md), which explains the most frequent ones.\n\n")
	for _, a := range hintAreas {
		fmt.Fprintf(b, "## %s\n\n", a.title)
		var rows [][]string
		for _, h := range areas[a.title] {
			rows = append(rows, []string{h.shown(), marked(h.text)})
		}
		slices.SortFunc(rows, func(a, b []string) int {
			return cmp.Or(cmp.Compare(sortable(a[0]), sortable(b[0])), cmp.Compare(a[1], b[1]))
		})
		writeTable(b, []string{"message or cause", "what to do"}, slices.CompactFunc(rows, slices.Equal))
	}
	return b.String()
}

// shown returns the first cell of a row: the message as code, the cause, or both.
func (h hintInCode) shown() string {
	switch {
	case h.message == "":
		return marked(upperFirst(h.cause))
	case h.cause == "":
		return fenced(h.message)
	}
	return fenced(h.message) + ": " + marked(h.cause)
}

// fenced returns a message as code. A message with backticks needs two of them around it.
func fenced(message string) string {
	if strings.Contains(message, "`") {
		return "`` " + message + " ``"
	}
	return code(message)
}

// marked escapes the asterisks of a hint, except in code between backticks.
func marked(text string) string {
	parts := strings.Split(text, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.ReplaceAll(parts[i], "*", `\*`)
	}
	return strings.Join(parts, "`")
}

func sortable(cell string) string {
	return strings.ToLower(strings.TrimLeft(cell, "`… -\"\\"))
}
