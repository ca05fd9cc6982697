package render

import (
	"fmt"
	"io"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/verify"
	"github.com/penstock-data/penstock/state/plainerror"
)

// Verified prints the outcome per stream, and the differences. The hints name the configuration file.
func Verified(w io.Writer, r verify.Report, file string) error {
	count := map[verify.Agreement]int{}
	g := NewTable("stream", "destination", "agreement", "#records", "#rows", "#missing", "#extra", "#differs", "#filtered", "#rejected").Toned("agreement")
	for _, s := range r.Streams {
		count[s.Agreement]++
		g.Add(s.Stream, s.Destination, string(s.Agreement), s.Records, s.Rows, s.Missing, s.Extra, s.Differing, s.Filtered, s.Rejected)
	}
	g.Render(w)
	for _, s := range r.Streams {
		printDifferences(w, s, file)
	}
	_, err := fmt.Fprintf(w, "\n%s: %d equal, %d different, %d unchecked; %s requests in %s\n", r.Pipeline,
		count[verify.Equal], count[verify.Different], count[verify.Unchecked], Grouped(int64(r.Requests)), Brief(r.Ended.Sub(r.Started).Round(time.Millisecond)))
	return err
}

// printDifferences lists the differing rows of a stream, or why it was not compared.
func printDifferences(w io.Writer, s verify.Result, file string) {
	if s.Err != nil {
		fmt.Fprintf(w, "\n%s → %s was not compared: %s\n", s.Stream, s.Destination, Printable(plainerror.Text(s.Err.Error()), false))
		if h := Remedy(s.Err, s.Stream); h != "" {
			_ = Hint(w, "  ", h, file)
		}
		return
	}
	if len(s.List) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s → %s\n", s.Stream, s.Destination)
	for _, d := range s.List {
		fmt.Fprintf(w, "  %-8s %s %s\n", d.Kind, d.Table, Printable(d.Key, false))
	}
	if n := s.Missing + s.Extra + s.Differing - int64(len(s.List)); n > 0 {
		fmt.Fprintf(w, "  and %s more\n", Grouped(n))
	}
}

type verifiedReport struct {
	verify.Report
	ExitCode int            `json:"exit_code"`
	Streams  []verifiedJSON `json:"streams"`
}

type verifiedJSON struct {
	verify.Result
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// VerifyJSON returns the outcome of a comparison in the form that `verify --json` prints.
func VerifyJSON(r verify.Report, file string) verifiedReport {
	out := verifiedReport{Report: r, ExitCode: r.ExitCode(), Streams: []verifiedJSON{}}
	for _, s := range r.Streams {
		v := verifiedJSON{Result: s, Hint: Suggest(Remedy(s.Err, s.Stream), file)}
		if s.Err != nil {
			v.Error = plainerror.Text(s.Err.Error())
		}
		out.Streams = append(out.Streams, v)
	}
	return out
}
