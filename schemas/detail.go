package schemas

import "slices"

// PlainKey reports whether the key of the stream is one column, which the table stores unchanged.
func (s Stream) PlainKey() bool {
	return len(s.Key) == 1 && !s.Verdict(PathPointer(s.Key[0])).Touched()
}

// Detail returns the stream of the catalogue that requests one record of s by its key.
func (s Stream) Detail(catalogue []Stream) (Stream, bool) {
	if !s.PlainKey() {
		return Stream{}, false
	}
	i := slices.IndexFunc(catalogue, func(d Stream) bool {
		return d.Class == ClassDetail && d.Enabled && d.Method == "GET" && d.Parent == s.Name &&
			len(d.Params) == 1 && d.Params[0].In == "path" && Column(d.Params[0].From) == s.Key[0]
	})
	if i < 0 {
		return Stream{}, false
	}
	return catalogue[i], true
}
