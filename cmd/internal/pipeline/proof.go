package pipeline

// proofOf is the verdict on the last pass over a stream in this run; "" where
// there was none, or not yet.
func (r *run) proofOf(stream string) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proof[stream]
}

// prove takes note of the verdict on a pass over p's stream, for the streams
// that take their parents from it. It proves nothing to them where the list
// waits for a person, nor where it is not that of the pass before, which is the
// one a source hands to the children.
func (p *pass) prove(v Verdict, doubtful bool) {
	if doubtful && v == Proven {
		v = Consistent
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proof[p.stream.Name] = v
}
