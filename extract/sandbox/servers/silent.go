package servers

import (
	"net/http"
	"slices"
)

// Lies reports whether the answers look as if the list were shorter than it is. The cases are:
//
//   - the total counts only the page, and the paging parameter has an unusual name;
//   - records are hidden, so the first page is empty or has an unusual length, and the
//     server refuses unknown parameters or treats them as filters;
//   - a page always fails, with the status that servers return after the end of a list.
//
// The verdict on such a list may be `proven`, although records are missing.
func (s Spec) Lies() bool {
	here := slices.ContainsFunc(s.Signals, func(g Signal) bool { return g.Says == "total here" })
	hidden := s.Records.Hidden
	switch {
	case here && (s.Paging.Kind == KindCap || s.Paging.Kind == KindMoment), hidden > 0 && (hidden >= s.Size.Default || s.Unknown != ""):
		return true
	}
	return slices.ContainsFunc(s.Faults, func(f Fault) bool {
		return f.Kind == FaultStatus && f.Count == 0 && f.Row > 0 && slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound}, f.Status)
	})
}

// Silent reports whether the server leaves out records in a way that a single reading cannot notice. The cases are:
//
//   - its signals are wrong;
//   - a part of a page is missing, and the rest of the answer is unchanged;
//   - records are left out until the end of a run, or pages come from a cache;
//   - only some of the records can be reached (Paging.Deep), or the list is cut at a length
//     that is no usual page size.
func (s Spec) Silent() bool {
	return s.Lies() || s.Paging.Deep > 0 || s.Paging.Kind == KindCap && s.Size.Default%5 != 0 ||
		slices.ContainsFunc(s.Faults, func(f Fault) bool {
			return f.Kind == FaultHalf || f.Kind == FaultEmptied || f.Kind == FaultCached || f.Kind == FaultLeftOut && f.To == 0
		})
}
