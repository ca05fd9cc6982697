package proof

import "strings"

// Verdict is the degree to which a pass is known to be complete.
type Verdict string

// The verdicts, best first.
const (
	Proven       Verdict = "proven"       // every record of the list was read, and a witness confirms that
	Consistent   Verdict = "consistent"   // the pass reached the end of the list, but nothing proves that it is complete
	Unproven     Verdict = "unproven"     // records are missing or may be missing, or the list changed while it was read
	Contradicted Verdict = "contradicted" // the source's own total contradicts the pass
)

func (v Verdict) rank() int {
	switch v {
	case Proven:
		return 0
	case Consistent:
		return 1
	case Unproven:
		return 2
	}
	return 3
}

// Worse reports whether v is a worse verdict than o.
func (v Verdict) Worse(o Verdict) bool { return v.rank() > o.rank() }

// Doubtful reports whether the pass itself is in doubt, even if no rows are missing.
func (v Verdict) Doubtful() bool { return v.Worse(Consistent) }

// Judge returns the verdict on a pass. // Invariant 12
func Judge(f Facts) Verdict { return judge(&f, witnesses, doubts) }

func judge(f *Facts, witnesses []Witness, doubts []Doubt) Verdict {
	v := Consistent
	for _, w := range witnesses {
		if w.applies(f) {
			v = Proven
			break
		}
	}
	for _, d := range doubts {
		if d.Most.Worse(v) && d.applies(f) {
			v = d.Most
		}
	}
	return v
}

// Reasons returns the reasons for the verdict as text. A proven pass has a witness, a consistent pass lacks something
// that a proof needs, and any other pass has doubts.
func Reasons(f Facts) string {
	switch v := Judge(f); v {
	case Proven:
		for _, w := range witnesses {
			if w.applies(&f) {
				return w.reason(&f)
			}
		}
		return ""
	case Consistent:
		return strings.Join(f.lacks(), ", ")
	default:
		return strings.Join(f.against(v), ", ")
	}
}

func (f *Facts) against(v Verdict) []string {
	var words []string
	for _, d := range doubts {
		if d.Most == v && d.applies(f) {
			words = append(words, d.reason(f))
		}
	}
	return words
}

// Doubts returns the names of the doubts that apply, the gravest first.
func Doubts(f Facts) []string {
	var names []string
	for _, d := range doubts {
		if d.applies(&f) {
			names = append(names, d.Name)
		}
	}
	return names
}
