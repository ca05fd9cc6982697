package pipeline

// lists is what a run knows of the lists it has read, for the streams that take
// their parents from them.
type lists struct {
	verdict map[string]Verdict // on the last pass, by stream
	held    map[[2]string]bool // waits for a person, by stream and destination
}

// claim is what the end of a pass says for the streams below it.
type claim struct {
	verdict  Verdict
	doubtful bool // it may not be about the list that they take their parents from
	held     bool
}

// proofOf is the verdict on the last pass over a stream in this run, as far as
// it counts in the destination; "" where there was none, or not yet.
func (r *run) proofOf(destination, stream string) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.proof.verdict[stream]
	if v == Proven && r.proof.held[[2]string{stream, destination}] {
		return Consistent
	}
	return v
}

// prove takes note of the verdict on a pass over p's stream, for the streams
// that take their parents from it. It proves nothing to them where the list
// waits for a person, in that destination, nor where it is doubtful: not that
// of the pass before, which is the one a source hands to the children, or not
// all of the list.
func (p *pass) prove(destination string, c claim) {
	if c.doubtful && c.verdict == Proven {
		c.verdict = Consistent
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proof.verdict[p.stream.Name] = c.verdict
	p.proof.held[[2]string{p.stream.Name, destination}] = c.held
}
