//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// lentPaths is a set of files that this process must not open, because another program uses them. A channel is closed
// when the program has ended.
type lentPaths struct {
	mu  sync.Mutex
	all map[string]chan struct{}
}

// lent is shared by all destinations of the process.
var lent = lentPaths{all: map[string]chan struct{}{}}

// lendLook is how often Lend looks whether the file is closed.
const lendLook = 10 * time.Millisecond

// Lend waits until this process has closed the files at the paths, and keeps them closed until back() is called. So a
// program that this process starts can open the files. Runs of this process wait until then, see [load.ForRun]. Lend
// returns an error if ctx ends first. Only one caller at a time can lend a file; others wait. All callers lend files in
// the order of their paths, so that no two callers wait for each other. // Invariant 15
func Lend(ctx context.Context, paths ...string) (back func(), err error) {
	var all []func()
	back = func() {
		for _, one := range all {
			one()
		}
	}
	files := make([]string, len(paths)) // without links, so that each file occurs once
	for i, path := range paths {
		if files[i], err = resolvePath(path); err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
	}
	slices.Sort(files)
	for _, file := range slices.Compact(files) {
		one, err := lend(ctx, file)
		if err != nil {
			back()
			return nil, err
		}
		all = append(all, one)
	}
	return back, nil
}

func lend(ctx context.Context, path string) (back func(), err error) {
	for !lent.add(path) {
		if err := lent.wait(ctx, path); err != nil {
			return nil, err
		}
	}
	// From now on, the file is detached soon after its users have finished.
	tick := time.NewTicker(lendLook)
	defer tick.Stop()
	for !inUse.acquire(path) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			lent.remove(path)
			return nil, context.Cause(ctx)
		}
	}
	return func() {
		inUse.release(path)
		lent.remove(path)
	}, nil
}

func (l *lentPaths) add(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[path] != nil {
		return false
	}
	l.all[path] = make(chan struct{})
	return true
}

func (l *lentPaths) remove(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.all[path])
	delete(l.all, path)
}

func (l *lentPaths) of(path string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[path]
}

func (l *lentPaths) has(path string) bool { return l.of(path) != nil }

// wait waits until a file is not lent, or ctx ends.
func (l *lentPaths) wait(ctx context.Context, path string) error {
	back := l.of(path)
	if back == nil {
		return nil
	}
	select {
	case <-back:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
