package proof

import "strings"

// Verdict says how far the completeness of a pass is established.
type Verdict string

// The verdicts, best first.
const (
	Proven       Verdict = "proven"       // every record that the source has is in the table, and no other
	Consistent   Verdict = "consistent"   // the pass ended by its rule, nothing speaks against it, nothing proves it
	Unproven     Verdict = "unproven"     // records are missing, may be missing, or moved while they were read
	Contradicted Verdict = "contradicted" // the source's own total says otherwise
)

// rank orders the verdicts: a larger one is worse.
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

// Worse reports whether v establishes less than o.
func (v Verdict) Worse(o Verdict) bool { return v.rank() > o.rank() }

// Doubtful reports whether the pass itself is in doubt, whether rows are missing
// or not.
func (v Verdict) Doubtful() bool { return v.Worse(Consistent) }

// Judge weighs the facts of a pass. // Invariant 12
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

// Reasons are the grounds of the verdict in words: the proof of a proven pass,
// what is missing for a proof, or what speaks against the pass.
func Reasons(f Facts) string {
	switch v := Judge(f); v {
	case Proven:
		for _, w := range witnesses {
			if w.applies(&f) {
				return w.says(&f)
			}
		}
		return ""
	case Consistent:
		return strings.Join(f.lacks(), ", ")
	default:
		return strings.Join(f.against(v), ", ")
	}
}

// against are the reasons of the doubts that allow no better verdict than v.
func (f *Facts) against(v Verdict) []string {
	var words []string
	for _, d := range doubts {
		if d.Most == v && d.applies(f) {
			words = append(words, d.says(f))
		}
	}
	return words
}

// Doubts are the names of the doubts that apply, the gravest first.
func Doubts(f Facts) []string {
	var names []string
	for _, d := range doubts {
		if d.applies(&f) {
			names = append(names, d.Name)
		}
	}
	return names
}
