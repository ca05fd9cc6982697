package state

import (
	"slices"
	"time"
)

// Limits for the captures of one source. Anyone who knows the address can send captures, because no signature is
// checked. Invariant 6
const (
	CaptureLimit = 100
	CaptureBytes = 32 << 20
	CaptureAge   = 24 * time.Hour

	captureEach = 20 // most captures per sender, so that one sender cannot use up CaptureLimit
)

// Captured describes a stored capture for [CaptureRoom].
type Captured struct {
	Capture int64 // number of the capture; older captures have lower numbers
	From    string
	Likely  bool
	Size    int
}

// CaptureRoom decides which captures of a source must be deleted before the capture more is stored. It returns their
// numbers. all must be sorted by number. A capture is likely if it has the signature header. CaptureRoom deletes in
// this order:
//
//  1. If the sender of more already has captureEach captures: captures of this sender, unlikely ones first.
//  2. While there are still too many captures: unlikely captures of any sender.
//  3. After that: captures of the sender that has the most.
//
// In each step, the oldest capture is deleted first. So some likely captures survive a flood from few addresses and a
// flood without signatures.
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
		drop(func(c Captured) bool { return own(c) && unlikely(c) }) // an unlikely one, if there is one
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
