package history

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
)

// LastPass is the certificate of a pass: its verdict and its witnesses.
type LastPass struct {
	Run       string           `json:"run"`
	Verdict   pipeline.Verdict `json:"verdict"`
	Witnesses json.RawMessage  `json:"witnesses"`
}

// LastPasses returns the newest certificates of a pipeline's streams, by stream.
func LastPasses(ctx context.Context, d load.Destination, of string) (map[string]LastPass, error) {
	newest, err := NewestCertificates(ctx, d, []string{"verdict", "witnesses"})
	all := map[string]LastPass{}
	for k, c := range newest {
		run, _ := c.Run.(string)
		verdict, _ := c.Values[0].(string)
		if text := fmt.Sprint(c.Values[1]); k.Pipeline == of && run > all[k.Stream].Run && json.Valid([]byte(text)) {
			all[k.Stream] = LastPass{run, pipeline.Verdict(verdict), json.RawMessage(text)}
		}
	}
	return all, err
}

// Print writes the verdict, its reasons, and one fact per line.
func (p LastPass) Print(w io.Writer) {
	if p.Run == "" {
		return
	}
	fmt.Fprintf(w, "#\n# last pass, run %s: %s", p.Run, p.Verdict)
	if why := Reasons(string(p.Witnesses)); why != nil {
		fmt.Fprintf(w, ": %s", why)
	}
	fmt.Fprintln(w)
	var text bytes.Buffer
	d := json.NewDecoder(bytes.NewReader(p.Witnesses))
	for _, err := d.Token(); err == nil && d.More(); _, err = text.WriteTo(w) {
		var value json.RawMessage
		name, _ := d.Token()
		if d.Decode(&value) != nil {
			return
		}
		switch string(value) {
		case "null", "false", `""`, "0":
			continue
		}
		if name != "why" && name != "pass" {
			fmt.Fprintf(&text, "#   %s: %s\n", name, value)
		}
	}
}
