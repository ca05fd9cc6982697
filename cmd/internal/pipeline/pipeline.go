// Package pipeline executes one run of a pipeline, from a source to its destinations. It reads the streams in
// parallel. It commits each group of pages together with the position at which the next group begins. At the end of a
// pass it decides what the pass has proven, and stores this decision in penstock's own tables in each destination.
//
// It sends no HTTP requests, executes no SQL and reads no configuration file. An error or a panic of one stream ends
// only that stream and is reported in the [Report]. The error that Run returns concerns the run itself.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Run reads every stream of c once and returns when all of its goroutines have ended. When ctx is cancelled, it
// finishes or rolls back open commits within ten seconds. If a signal caused the cancellation (see [Stop]), ExitCode of
// the report returns the exit code for that signal. The error concerns the run itself; errors of single streams are in
// the report.
func Run(ctx context.Context, c Config) (Report, error) {
	r, err := newRun(c)
	if err != nil {
		return Report{Status: StatusFailed}, err
	}
	r.survey(ctx)
	r.foresee(ctx)
	if err := r.open(ctx); err != nil {
		return r.finish(ctx, fmt.Errorf("start run: %w", err))
	}
	r.recall(ctx)
	r.streams(ctx)
	r.check(ctx)
	return r.finish(ctx, r.gateErrors())
}

// streams reads all streams. A child stream first waits for its parent and only then takes a worker slot. So waiting
// children never block their parents.
func (r *run) streams(ctx context.Context) {
	late, release := WithGrace(ctx, commitGrace)
	r.queue = newSettleQueue(late, r.Workers, r.budget)
	leave := r.budget.join(r.queue)
	defer func() {
		leave()
		release()
		r.queue.commits.Wait() // some streams did not wait for their commits // Invariant 15
	}()
	done := make(map[string]chan struct{}, len(r.Streams))
	reports := make([][]StreamReport, len(r.Streams))
	var wg sync.WaitGroup
	for _, s := range r.Streams {
		done[s.Name] = make(chan struct{})
	}
	begun := map[string]bool{}
	for i, s := range r.Streams {
		parent, twin, own := done[s.Parent], done[s.Twin], done[s.Name]
		if !begun[s.Parent] {
			parent = nil // the parent comes later in the list, or is not in it
		}
		begun[s.Name] = true
		wg.Go(func() {
			end := sync.OnceFunc(func() { close(own) })
			defer end()
			for _, before := range []chan struct{}{parent, twin} {
				if before != nil {
					<-before
				}
			}
			at := r.queue.slot(ctx, end)
			defer at.leave()
			reports[i] = r.stream(ctx, s, at)
			r.NoMorePasses(s)
		})
	}
	wg.Wait()
	for _, rs := range reports {
		r.reports = append(r.reports, rs...)
	}
}

// gateErrors returns one error for each surface that refused the credential, or that answered all requests with 404.
// Invariant 14
func (r *run) gateErrors() error {
	var errs []error
	for _, surface := range slices.Sorted(maps.Keys(r.gates)) {
		g := r.gates[surface]
		err := g.closed()
		if err == nil {
			err = g.misplaced()
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
