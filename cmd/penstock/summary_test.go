package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// A run with a hundred problems is not told as a hundred, unless asked.
func TestSummaryOfManyProblems(t *testing.T) {
	r := pipeline.Report{Run: "r", Pipeline: "all", Status: pipeline.StatusFailed}
	for n := range maxProblems + 3 {
		name := fmt.Sprintf("crm.s%02d", n)
		r.Streams = append(r.Streams, pipeline.StreamReport{
			Stream: name, Status: pipeline.StatusFailed, Err: fmt.Errorf("%s: cause %d", name, n),
		})
	}
	for _, n := range []int{20, 21} { // one cause, told by each stream in its own name
		name := fmt.Sprintf("crm.s%02d", n)
		r.Streams = append(r.Streams, pipeline.StreamReport{
			Stream: name, Status: pipeline.StatusHeld, Err: errors.New(name + ": not tried"),
		})
	}
	told := func(verbose bool) string {
		var b strings.Builder
		(&app{verbose: verbose}).summarise(&b, r)
		return b.String()
	}
	brief, all := told(false), told(true)
	require.Equal(t, maxProblems, strings.Count(brief, ": cause "))
	require.Contains(t, brief, "\nand 4 problems more, which -v tells\n")
	require.Equal(t, maxProblems+3, strings.Count(all, ": cause "))
	require.Contains(t, all, "held        2 streams: crm.s20, crm.s21\n")
	require.NotContains(t, all, "which -v tells")
}
