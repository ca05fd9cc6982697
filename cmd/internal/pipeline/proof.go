package pipeline

import (
	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/extract"
)

// lists is what a run knows of the lists it has read, for the streams that take
// their parents from them.
type lists struct {
	verdict map[string]Verdict    // on the last pass in any destination, by stream
	own     map[[2]string]Verdict // on the last pass in a destination, by stream and destination
	held    map[[2]string]bool    // waits for a person, likewise
}

// claim is what the end of a pass says for the streams below it.
type claim struct {
	verdict  Verdict
	doubtful bool // it may not be about the list that they take their parents from
	held     bool
}

// proofOf is the verdict on the last pass over a stream in this run, as far as
// it counts in the destination; "" where there was none, or not yet. The streams below
// take their parents from the last pass, wherever it was, and compare them with what the
// destination has from its own: the worse verdict of both counts. // Invariant 12
func (r *run) proofOf(destination, stream string) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.proof.verdict[stream]
	if own, ok := r.proof.own[[2]string{stream, destination}]; ok && own.Worse(v) {
		v = own
	}
	if v == Proven && r.proof.held[[2]string{stream, destination}] {
		return Consistent
	}
	return v
}

// parentVerdict is the verdict on the list that the stream took its parents from:
// on the parent's pass in this run or, where it had none, on the reading that was
// made for the children alone.
func (p *pass) parentVerdict(destination string, e *extract.End) Verdict {
	if v := p.proofOf(destination, p.stream.Parent); v != "" || e.ParentList == nil {
		return v
	}
	return listVerdict(e.ParentList)
}

// listVerdict weighs a reading of a stream that was made for its children alone.
func listVerdict(l *extract.ParentList) Verdict {
	f := factsOf(&l.End)
	f.Distinct, f.Duplicates = l.Records-l.Repeats, l.Repeats
	if l.End.ParentList != nil {
		f.Parent = listVerdict(l.End.ParentList)
	}
	if l.Again {
		f.Second = proof.SameRecords
	}
	return proof.Judge(f)
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
	p.proof.own[[2]string{p.stream.Name, destination}] = c.verdict
	p.proof.held[[2]string{p.stream.Name, destination}] = c.held
}
