package state

import (
	"slices"
	"time"
)

// Bounds of the captures of one source. Nothing has verified them, and anybody who
// knows the address can send some. // Invariant 6
const (
	CaptureLimit = 100
	CaptureBytes = 32 << 20
	CaptureAge   = 24 * time.Hour

	captureEach = 20 // of one sender: the rest of the room is for others
)

// Captured is what is known of a capture when room is made for another.
type Captured struct {
	Capture int64 // its number: older ones have lower ones
	From    string
	Likely  bool
	Size    int
}

// CaptureRoom returns the captures of a source that give way to a new one: of its
// own sender, once that has its share; then those without the signature header;
// then those of the sender with the most; of these the oldest first. So neither a
// flood from few addresses nor one without signatures keeps a scheme from being
// learned. all is in the order of its numbers.
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
		drop(func(c Captured) bool { return own(c) && unlikely(c) }) // or else
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

// mostCaptures is the sender that has the most; of several the one with the oldest.
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
