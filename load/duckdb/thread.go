//go:build cgo && duckdb_arrow

package duckdb

import "runtime"

// thread runs functions on one thread of the operating system. The engine's allocator keeps freed memory for each thread
// that calls the engine, and Go calls it from any thread. With all writes on one thread, the next commit uses the memory
// that the last commit has freed. A load of a million records then takes 350 MB instead of 440 MB.
type thread chan func()

func newThread() thread {
	t := make(thread)
	go func() {
		runtime.LockOSThread() // without unlock: the thread ends with the goroutine
		for f := range t {
			f()
		}
	}()
	return t
}

// run calls f and returns when f has returned. If t is nil, f runs on the thread of the caller.
func (t thread) run(f func()) {
	if t == nil {
		f()
		return
	}
	done := make(chan struct{})
	t <- func() { defer close(done); f() }
	<-done
}
