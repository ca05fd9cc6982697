package pipeline

import (
	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/extract"
)

type lists struct {
	verdict map[string]Verdict    // verdict on the last pass in any destination, by stream
	own     map[[2]string]Verdict // verdict on the last pass in a destination, by stream and destination
	held    map[[2]string]bool
}

type claim struct {
	verdict  Verdict
	doubtful bool // the verdict may not concern the list that the children's parents come from
	held     bool
}

// proofOf returns the worse of two verdicts: on the last pass in any destination, and on the last pass in this
// destination. Child streams take their parents from the one, and compare them with rows from the other. It returns
// "" if there was no pass yet. // Invariant 12
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

// parentVerdict returns the verdict on the parent stream's pass in this run. If there was none, the verdict is on the
// list of parents that was read only for the children.
func (p *pass) parentVerdict(destination string, e *extract.End) Verdict {
	if v := p.proofOf(destination, p.stream.Parent); v != "" || e.ParentList == nil {
		return v
	}
	return listVerdict(e.ParentList)
}

func listVerdict(l *extract.ParentList) Verdict {
	f := factsOf(&l.End)
	f.Distinct, f.Duplicates = l.Records-l.Repeats, l.Repeats
	if l.End.ParentList != nil {
		f.Parent = listVerdict(l.End.ParentList)
	}
	if l.Repeated {
		f.Second = proof.SameRecords
	}
	return proof.Judge(f)
}

// prove stores the verdict of a claim. A doubtful claim is at best consistent, because the source may take the
// parents of the children from another list.
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
