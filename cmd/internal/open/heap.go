package open

import (
	"os"
	"runtime/debug"
)

// DefaultHeap is the size of the Go heap that the garbage collector aims for, in bytes. GOMEMLIMIT or a destination may
// set another size. Most of the heap is column buffers. They are large, short-lived and without pointers, so frequent
// collections are cheap. // Invariant 6
const DefaultHeap = 128 << 20

// KeepHeap sets the size of the heap that the garbage collector aims for, unless GOMEMLIMIT is set.
func KeepHeap(bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes)
	}
}

// raiseHeap raises the heap size to what a run needs. It never lowers it, so in a daemon the largest run decides.
func (o *Opener) raiseHeap(bytes int64) {
	for {
		was := o.heap.Load()
		if bytes <= was {
			return
		}
		if o.heap.CompareAndSwap(was, bytes) {
			KeepHeap(bytes)
			return
		}
	}
}
