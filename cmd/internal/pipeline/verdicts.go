package pipeline

import (
	"sync"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
)

// verdicts contains the verdicts on the passes of a run. Its methods may be called concurrently.
type verdicts struct {
	mu      sync.Mutex
	verdict map[string]Verdict    // verdict on the last pass in any destination, by stream
	own     map[[2]string]Verdict // verdict on the last pass in a destination, by stream and destination
	held    map[[2]string]bool
}

func newVerdicts() *verdicts {
	return &verdicts{verdict: map[string]Verdict{}, own: map[[2]string]Verdict{}, held: map[[2]string]bool{}}
}

// claim is what a pass over a stream proves about the parents of other streams.
type claim struct {
	verdict  Verdict
	doubtful bool // the verdict may be about a different list than the one from which child streams take their parents
	held     bool
}

// of() returns the worse of two verdicts on passes over the stream. The first is on the last pass in any destination,
// because child streams take their parents from that pass. The second is on the last pass in this destination, because
// that pass has loaded the rows with which the parents are compared. If the stream is held in this destination, the
// result is at best consistent. If there was no pass yet, the result is "". // Invariant 12
func (l *verdicts) of(destination, stream string) Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.verdict[stream]
	if own, ok := l.own[[2]string{stream, destination}]; ok && own.Worse(v) {
		v = own
	}
	if v == Proven && l.held[[2]string{stream, destination}] {
		return Consistent
	}
	return v
}

// parents() returns the verdict on the parent stream's pass in this run. If there was no such pass, it returns the
// verdict on the list of parents that was read only for the children.
func (l *verdicts) parents(destination string, s schemas.Stream, e *extract.End) Verdict {
	if v := l.of(destination, s.Parent); v != "" || e.ParentList == nil {
		return v
	}
	return listVerdict(e.ParentList)
}

// set stores the verdict of a claim. A doubtful claim is at best consistent, because the source may take the
// parents of the children from another list.
func (l *verdicts) set(destination, stream string, c claim) {
	if c.doubtful && c.verdict == Proven {
		c.verdict = Consistent
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.verdict[stream] = c.verdict
	l.own[[2]string{stream, destination}] = c.verdict
	l.held[[2]string{stream, destination}] = c.held
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
