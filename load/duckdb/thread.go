//go:build cgo && duckdb_arrow

package duckdb

import "runtime"

// thread runs functions on one thread of the operating system. The engine's allocator keeps freed memory for each thread
// that calls the engine, and Go calls it from any thread. With all writes on one thread, the next commit uses the memory
// that the last commit has freed. A load of a million records then takes 350 MB instead of 440 MB.
type thread struct {
	calls chan func()
	ended chan struct{}
}

func newThread() *thread {
	t := &thread{calls: make(chan func()), ended: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		// Without the unlock, the thread would end with the goroutine. Child processes that the thread had started before
		// would then get the signal that they get at the death of their parent (PR_SET_PDEATHSIG).
		defer runtime.UnlockOSThread()
		for {
			select {
			case f := <-t.calls:
				f()
			case <-t.ended:
				return
			}
		}
	}()
	return t
}

// end ends the thread. It is called once.
func (t *thread) end() {
	if t != nil {
		close(t.ended)
	}
}

// run calls f and returns when f has returned. If f panics, run panics with the same value, so that the caller can
// recover. If t is nil or has ended, f runs on the thread of the caller.
func (t *thread) run(f func()) {
	if t == nil {
		f()
		return
	}
	done := make(chan any, 1)
	call := func() {
		defer func() { done <- recover() }()
		f()
	}
	select {
	case t.calls <- call:
		if v := <-done; v != nil {
			panic(v)
		}
	case <-t.ended:
		f()
	}
}
