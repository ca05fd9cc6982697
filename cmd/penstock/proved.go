package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
)

// proved is the certificate of a pass: its verdict and its witnesses.
type proved struct {
	Run       string           `json:"run"`
	Verdict   pipeline.Verdict `json:"verdict"`
	Witnesses json.RawMessage  `json:"witnesses"`
}

// provedBy returns the newest certificates of a pipeline's streams, by stream.
func provedBy(ctx context.Context, d load.Destination, of string) (map[string]proved, error) {
	newest, err := newestCertificates(ctx, d, []string{"verdict", "witnesses"})
	all := map[string]proved{}
	for k, c := range newest {
		run, _ := c.run.(string)
		verdict, _ := c.values[0].(string)
		if text := fmt.Sprint(c.values[1]); k.Pipeline == of && run > all[k.Stream].Run && json.Valid([]byte(text)) {
			all[k.Stream] = proved{run, pipeline.Verdict(verdict), json.RawMessage(text)}
		}
	}
	return all, err
}

// print writes the verdict, its reasons, and one fact per line.
func (p proved) print(w io.Writer) {
	if p.Run == "" {
		return
	}
	fmt.Fprintf(w, "#\n# last pass, run %s: %s", p.Run, p.Verdict)
	if why := whyOf(string(p.Witnesses)); why != nil {
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
