package pipeline

import (
	"fmt"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
)

// twinNote says what the stream lacks that shows the same records. It was read
// before, so that what has come since is no fault of it.
func twinNote(d *proof.Difference) string {
	if d == nil || d.Here == 0 {
		return ""
	}
	return fmt.Sprintf("%s has %s less", d.Of, proof.Count(d.Here, ""))
}

// comparesWith reports whether a reading can be held against that of another
// stream: it is whole, and no record of it counts twice.
func (r *reading) comparesWith() bool {
	f := &r.facts
	return !f.Resumed && !f.Partial && f.Skipped == 0 && f.Duplicates == 0 && f.Gaps == 0
}

// show keeps what a pass has found for the stream whose twin this one is.
func (p *pass) show(r *reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.shown, p.stream.Name)
	if r.comparesWith() {
		p.shown[p.stream.Name] = &r.digest
	}
}

// agreement compares a reading with what the twin's last pass in this run has
// found; nil where that, or this, compares with nothing.
func (p *pass) agreement(r *reading) *proof.Difference {
	p.mu.Lock()
	twin := p.shown[p.stream.Twin]
	p.mu.Unlock()
	if p.stream.Twin == "" || twin == nil || !r.comparesWith() {
		return nil
	}
	if r.digest.rows > 0 && twin.rows > 0 && (r.digest.text == 0) != (twin.text == 0) {
		return nil // the one has numbers for keys, the other texts
	}
	d := p.hasher.minus(&r.digest, twin)
	return &proof.Difference{Of: p.stream.Twin, Here: d.here, There: d.there, Examples: d.examples}
}
