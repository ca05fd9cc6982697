package pipeline

import (
	"fmt"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
)

// twinNote reports records that the twin lacks. A twin is another stream that returns the same records. It was read
// earlier, so it may lack newer records.
func twinNote(d *proof.Difference) string {
	if d == nil || d.Here == 0 {
		return ""
	}
	return fmt.Sprintf("%s lacks %s", d.Of, proof.Count(d.Here, ""))
}

func (r *reading) comparesWith() bool {
	f := &r.facts
	return !f.Resumed && !f.Partial && f.Skipped == 0 && f.Duplicates == 0 && f.Gaps == 0
}

// show stores the digest for the stream that names this stream as its twin.
func (p *pass) show(r *reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.shown, p.stream.Name)
	if r.comparesWith() {
		p.shown[p.stream.Name] = &r.digest
	}
}

func (p *pass) agreement(r *reading) *proof.Difference {
	p.mu.Lock()
	twin := p.shown[p.stream.Twin]
	p.mu.Unlock()
	if p.stream.Twin == "" || twin == nil || !r.comparesWith() {
		return nil
	}
	if r.digest.Rows > 0 && twin.Rows > 0 && (r.digest.Text == 0) != (twin.Text == 0) {
		return nil // keys of one are integers, keys of the other are texts
	}
	d := p.hasher.Minus(&r.digest, twin)
	return &proof.Difference{Of: p.stream.Twin, Here: d.Here, There: d.There, Examples: d.Examples}
}
