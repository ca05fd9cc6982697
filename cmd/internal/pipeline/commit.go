package pipeline

import (
	"context"
	"errors"
	"sync"
	"time"
)

// commitAll commits the groups in order. Once ctx is done, it commits no further group, and only releases the memory of
// the remaining groups. A commit that is already running may finish within its grace period. // Invariant 15
func (p *pass) commitAll(ctx context.Context, groups <-chan *group, cancel context.CancelCauseFunc) {
	late, release := WithGrace(ctx, commitGrace)
	defer release()
	for g := range groups {
		if ctx.Err() == nil && !p.commitLocked(late, g) {
			cancel(errCommit)
		}
		p.kept += g.held
		g.held = 0
		if p.parts() || g.spill {
			p.returnBudget()
		}
		p.drop(g)
		p.open.Done()
	}
	for _, k := range p.destinations {
		k.rollback()
		k.found.release()
		k.left.Release()
		if !k.out {
			k.tidy(late, p)
		}
		k.addCosts(p)
	}
	p.run.requestCount.Add(int64(p.requests()))
	p.returnBudget()
}

func (p *pass) returnBudget() {
	p.run.budget.release(p.kept)
	p.kept = 0
}

// commit commits g to all destinations of the pass concurrently. A destination that fails, or is much slower
// than the others, drops out.
//
// If g.spill is set, the group goes to one destination after another: see reserve(). With concurrent commits, two
// streams could each hold one destination and wait forever for the destination that the other stream holds.
func (p *pass) commit(ctx context.Context, g *group) (left bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var first sync.Once
	var patience *time.Timer
	errs := make([]error, len(p.destinations))
	var commits sync.WaitGroup
	for i, k := range p.destinations {
		if k.out {
			continue
		}
		commits.Go(func() {
			errs[i] = Guard("commit", func() error { return k.commit(ctx, p, g) })
			if errs[i] == nil {
				first.Do(func() { patience = time.AfterFunc(p.run.limits.patience, func() { cancel(errSlow) }) })
			}
		})
		if g.spill {
			commits.Wait()
		}
	}
	commits.Wait()
	if patience != nil {
		patience.Stop()
	}
	for i, k := range p.destinations {
		switch {
		case k.out:
		case errs[i] != nil && errors.Is(context.Cause(ctx), errSlow) && errors.Is(errs[i], context.Canceled):
			k.drop(p, errSlow)
		case errs[i] != nil:
			k.drop(p, errs[i])
		default:
			p.committed(k)
			left = true
		}
	}
	return left
}

func (p *pass) committed(k *destinationRun) {
	if k.ended != nil {
		p.run.verdicts.set(k.dest.Name, p.stream.Name, *k.ended)
		k.ended = nil
	}
	if k.tx == nil { // otherwise the pass is one transaction, which continues
		p.run.emit(Event{Kind: EventCommit, Stream: p.stream.Name, Total: -1, Counts: k.sealed})
	}
}

func (p *pass) commitLocked(ctx context.Context, g *group) (left bool) {
	if !p.hasOverlays() {
		return p.commit(ctx, g)
	}
	if err := p.retakeLock(ctx); err != nil {
		return false
	}
	defer p.releaseLock()
	left = p.commit(ctx, g)
	p.keys.Add(p.stream, g.batches)
	return left
}
