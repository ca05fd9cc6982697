package state

import (
	"slices"
	"time"
)

// Limits for the captures of one source. A capture is a stored delivery of a webhook whose signature was not checked;
// see [InboxFile.Capture]. So anyone who knows the address of the webhook can send captures. Invariant 6
const (
	CaptureLimit = 100
	CaptureBytes = 32 << 20
	CaptureAge   = 24 * time.Hour

	captureEach = 20 // greatest number of captures per sender, so that one sender cannot use up CaptureLimit
)

// Captured describes a stored capture for [CaptureRoom].
type Captured struct {
	Capture int64 // number of the capture; later captures have higher numbers
	From    string
	Likely  bool
	Size    int
}

// CaptureRoom decides which stored captures of a source to delete, so that there is room for the new capture in the
// parameter `arriving`. It returns the numbers of the captures to delete. The slice captures must be sorted by number.
// A capture with the signature header is probably a real delivery. Such a capture is called likely, and any other
// capture unlikely. CaptureRoom selects in this order:
//
//  1. If the sender of the new capture already has captureEach captures, it selects captures of this sender. It selects
//     unlikely ones first.
//  2. While there are still too many captures, it selects unlikely captures of any sender.
//  3. After that, it selects captures of the sender that has the most captures.
//
// In each step, the oldest capture is deleted first. A flood of false captures may come from a few addresses, or have
// no signatures. In both cases, some likely captures of other senders survive.
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
		drop(func(c Captured) bool { return own(c) && unlikely(c) }) // first try to delete an unlikely capture of this sender
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
