package state

import (
	"slices"
	"time"
)

// Limits for the captures of one source. Captures are not verified, and anyone who knows the address can send them.
// Invariant 6
const (
	CaptureLimit = 100
	CaptureBytes = 32 << 20
	CaptureAge   = 24 * time.Hour

	captureEach = 20 // limit per sender, so that one sender cannot fill CaptureLimit
)

// Captured describes a capture when room is needed for another.
type Captured struct {
	Capture int64 // number of the capture; older captures have lower numbers
	From    string
	Likely  bool
	Size    int
}

// CaptureRoom returns the numbers of the captures of a source that must be deleted to make room for a new one. If the
// sender of the new capture already has captureEach captures, captures of this sender are deleted first, those without
// the signature header before the others. If there are still too many captures, those without the signature header are
// deleted, and then those of the sender that has the most captures. In each case, the oldest are deleted first. So
// neither a flood from few addresses nor a flood without signatures prevents a scheme from being learned. The given
// captures must be sorted by number.
func CaptureRoom(all []Captured, more Captured) (gone []int64) {
	drop := func(which func(Captured) bool) bool {
		i := slices.IndexFunc(all, which)
		if i < 0 {
			return false
		}
		gone = append(gone, all[i].Capture)
		all = slices.Delete(slices.Clone(all), i, i+1)
		return true
	}
	sum := func() (n int) {
		for _, c := range all {
			n += c.Size
		}
		return n
	}
	own := func(c Captured) bool { return c.From == more.From }
	unlikely := func(c Captured) bool { return !c.Likely }
	for countOf(all, more.From) >= captureEach {
		drop(func(c Captured) bool { return own(c) && unlikely(c) }) // one without the signature header, if there is one
		if countOf(all, more.From) >= captureEach {
			drop(own)
		}
	}
	for len(all) >= CaptureLimit || len(all) > 0 && sum()+more.Size > CaptureBytes {
		if drop(unlikely) {
			continue
		}
		most := mostCaptures(all)
		drop(func(c Captured) bool { return c.From == most })
	}
	return gone
}

func countOf(all []Captured, from string) (n int) {
	for _, c := range all {
		if c.From == from {
			n++
		}
	}
	return n
}

func mostCaptures(all []Captured) (from string) {
	n := map[string]int{}
	for _, c := range all {
		n[c.From]++
	}
	best := 0
	for _, c := range all {
		if n[c.From] > best {
			from, best = c.From, n[c.From]
		}
	}
	return from
}
