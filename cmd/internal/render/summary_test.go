package render

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Without -v, only the first of a hundred problems are listed.
func TestSummaryOfManyProblems(t *testing.T) {
	r := pipeline.Report{Run: "r", Pipeline: "all", Status: pipeline.StatusFailed}
	for n := range maxProblems + 3 {
		name := fmt.Sprintf("crm.s%02d", n)
		r.Streams = append(r.Streams, pipeline.StreamReport{
			Stream: name, Status: pipeline.StatusFailed, Err: fmt.Errorf("%s: cause %d", name, n),
		})
	}
	for _, n := range []int{20, 21} { // both errors are the same except for the stream's name at the beginning
		name := fmt.Sprintf("crm.s%02d", n)
		r.Streams = append(r.Streams, pipeline.StreamReport{
			Stream: name, Status: pipeline.StatusHeld, Err: errors.New(name + ": not tried"),
		})
	}
	told := func(verbose bool) string {
		var b strings.Builder
		Summary(&b, r, SummaryOptions{Verbose: verbose})
		return b.String()
	}
	brief, all := told(false), told(true)
	require.Equal(t, maxProblems, strings.Count(brief, ": cause "))
	require.Contains(t, brief, "\nand 4 problems more; -v shows them\n")
	require.Equal(t, maxProblems+3, strings.Count(all, ": cause "))
	require.Contains(t, all, "held        2 streams: crm.s20, crm.s21\n")
	require.NotContains(t, all, "-v shows them")
}

// A stream that is loaded into three destinations is read once, so its requests and its verdict count once.
func TestSummaryOfSeveralDestinations(t *testing.T) {
	r := pipeline.Report{Run: "r", Pipeline: "all", Status: pipeline.StatusPartial, Requests: 2}
	for _, stream := range []string{"crm.leads", "hr.leaves"} {
		for _, d := range []string{"warehouse", "bi", "lake"} {
			s := pipeline.StreamReport{Stream: stream, Destination: d, Status: pipeline.StatusComplete, Verdict: pipeline.Proven,
				Counts: pipeline.Counts{Fetched: 5, Written: 5}, Requests: 1}
			if d == "lake" {
				cause := &fs.PathError{Op: "write", Path: stream, Err: syscall.ENOSPC}
				s.Status, s.Verdict, s.Counts = pipeline.StatusLagging, "", pipeline.Counts{}
				s.Err = fmt.Errorf("%s to lake: %w", stream, errors.Join(cause))
			}
			r.Streams = append(r.Streams, s)
		}
	}
	var b strings.Builder
	Summary(&b, r, SummaryOptions{})
	require.Contains(t, b.String(), "lagging     2 streams: crm.leads, hr.leaves → lake\n")
	require.Regexp(t, `(?m)^bi +2 +10 +10 `, b.String())
	require.Regexp(t, `(?m)^lake +0 of 2 +0 +0 `, b.String())
	require.NotRegexp(t, `(?m)^(all|crm) `, b.String())
	require.Contains(t, b.String(), "2 requests, 2 proven\n")

	b.Reset()
	Summary(&b, r, SummaryOptions{Verbose: true})
	require.Regexp(t, `(?m)^hr.leaves → bi +complete +proven `, b.String())
}

// The hint for a held stream names --confirm-shrink only if that flag would delete the missing rows.
func TestRemedyOfAHeldStream(t *testing.T) {
	held := func(confirm bool) string {
		return remedy(pipeline.StreamReport{Status: pipeline.StatusHeld, Missing: 2, Err: &pipeline.HeldError{Reason: "2 rows are missing", Confirm: confirm}})
	}
	require.Contains(t, held(true), "if 2 rows are really gone at the source, run again with --confirm-shrink")
	require.NotContains(t, held(false), "--confirm-shrink")
}
