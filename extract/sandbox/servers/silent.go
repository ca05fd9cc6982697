package servers

import (
	"net/http"
	"slices"
)

// Lies reports whether all that a server says agrees with a shorter list than it has:
//
//   - a total is that of the page, of a list whose parameter has an unusual name;
//   - the first page is empty, as all of its records are hidden; or it is of no usual
//     length, as some are, and the server refuses what it does not know, or empties the list for it;
//   - a page is refused for good in the way in which servers refuse what lies behind
//     the end.
//
// Only such a list may be proven while records of it are missing.
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

// Silent reports whether the server leaves records out and nothing in an answer shows
// it. No reader can tell such a list from a whole one by one reading:
//
//   - it lies;
//   - part of a page is missing, and everything else is as it was;
//   - records are left out to the end of a run, or pages come from a cache;
//   - the list goes no deeper, or is cut at a length that no page has by habit.
func (s Spec) Silent() bool {
	return s.Lies() || s.Paging.Deep > 0 || s.Paging.Kind == KindCap && s.Size.Default%5 != 0 ||
		slices.ContainsFunc(s.Faults, func(f Fault) bool {
			return f.Kind == FaultHalf || f.Kind == FaultEmptied || f.Kind == FaultCached || f.Kind == FaultLeftOut && f.To == 0
		})
}
