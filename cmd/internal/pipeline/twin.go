package pipeline

import "fmt"

// agreement is how the records of a stream compare with those of another that
// shows the same ones: its twin, read in the same run before it.
type agreement struct {
	stream string // the twin
	difference
}

// lacking reports whether the twin has records that the stream does not.
func (a *agreement) lacking() bool { return a != nil && a.there > 0 }

// note tells what the twin lacks. It was read before, so that what has come since
// is no fault of it.
func (a *agreement) note() string {
	if a == nil || a.here == 0 {
		return ""
	}
	return fmt.Sprintf("%s has %s less", a.stream, recordsOf(a.here, "", nil))
}

// comparesWith reports whether a reading can be held against that of another
// stream: it is whole, and no record of it counts twice.
func (r reading) comparesWith() bool {
	return r.whole && !r.end.Partial && r.end.Skipped == 0 && r.counts.Deduplicated == 0 && r.gaps() == 0
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
func (p *pass) agreement(r *reading) *agreement {
	p.mu.Lock()
	twin := p.shown[p.stream.Twin]
	p.mu.Unlock()
	if p.stream.Twin == "" || twin == nil || !r.comparesWith() {
		return nil
	}
	if r.digest.rows > 0 && twin.rows > 0 && (r.digest.text == 0) != (twin.text == 0) {
		return nil // the one has numbers for keys, the other texts
	}
	return &agreement{p.stream.Twin, p.hasher.minus(&r.digest, twin)}
}
