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

	captureEach = 20 // greatest number of captures per sender, so that one sender cannot use up CaptureLimit
)

// Captured describes a stored capture for [CaptureRoom].
type Captured struct {
	Capture int64 // number of the capture; older captures have lower numbers
	From    string
	Likely  bool
	Size    int
}

// CaptureRoom decides which stored captures of a source must be deleted before a new capture, the parameter arriving,
// is stored. It returns the numbers of these captures. The slice captures must be sorted by number. A capture is likely
// if it has the signature header. CaptureRoom selects in this order:
//
//  1. If the sender of arriving already has captureEach captures: captures of this sender, unlikely ones first.
//  2. While there are still too many captures: unlikely captures of any sender.
//  3. After that: captures of the sender that has the most.
//
// In each step, the oldest capture is deleted first. So some likely captures survive a flood from few addresses and a
// flood without signatures.
func CaptureRoom(captures []Captured, arriving Captured) (gone []int64) {
	drop := func(which func(Captured) bool) bool {
		i := slices.IndexFunc(captures, which)
		if i < 0 {
			return false
		}
		gone = append(gone, captures[i].Capture)
		captures = slices.Delete(slices.Clone(captures), i, i+1)
		return true
	}
	sum := func() (n int) {
		for _, c := range captures {
			n += c.Size
		}
		return n
	}
	own := func(c Captured) bool { return c.From == arriving.From }
	unlikely := func(c Captured) bool { return !c.Likely }
	for countOf(captures, arriving.From) >= captureEach {
		drop(func(c Captured) bool { return own(c) && unlikely(c) }) // an unlikely one, if there is one
		if countOf(captures, arriving.From) >= captureEach {
			drop(own)
		}
	}
	for len(captures) >= CaptureLimit || len(captures) > 0 && sum()+arriving.Size > CaptureBytes {
		if drop(unlikely) {
			continue
		}
		sender := mostCaptures(captures)
		drop(func(c Captured) bool { return c.From == sender })
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
