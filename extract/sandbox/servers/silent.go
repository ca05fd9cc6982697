package servers

import (
	"net/http"
	"slices"
)

// Lies reports whether all signals of a server agree with a shorter list than the real one:
//
//   - a total counts only the page, of a list whose parameter has an unusual name;
//   - the first page is empty because its records are hidden, or has an unusual length because
//     some are, and the server refuses or filters by unknown parameters;
//   - a page always fails with a status that servers use beyond the end.
//
// Only such a list may be proven although records are missing.
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

// Silent reports whether the server omits records and no answer shows it, so that one reading cannot detect it:
//
//   - its signals are wrong;
//   - a part of a page is missing, and the rest is unchanged;
//   - records are left out to the end of a run, or pages come from a cache;
//   - the list has a maximum depth, or is cut at a length that is no usual page size.
func (s Spec) Silent() bool {
	return s.Lies() || s.Paging.Deep > 0 || s.Paging.Kind == KindCap && s.Size.Default%5 != 0 ||
		slices.ContainsFunc(s.Faults, func(f Fault) bool {
			return f.Kind == FaultHalf || f.Kind == FaultEmptied || f.Kind == FaultCached || f.Kind == FaultLeftOut && f.To == 0
		})
}
