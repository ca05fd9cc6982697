package pipeline

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/penstock-data/penstock/load"
)

// commitAll commits the groups in order. Once ctx is done, it commits no further group and only releases the memory
// of the groups. A commit that is running then may finish within its grace period. // Invariant 15
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
	p.requestCount.Add(int64(p.requests()))
	p.returnBudget()
}

func (p *pass) returnBudget() {
	p.budget.release(p.kept)
	p.kept = 0
}

// commit commits g to all destinations of the pass concurrently. A destination that fails, or is much slower
// than the others, drops out.
//
// A group with spill set (see reserve) goes to one destination after another. With concurrent commits, two streams
// could each hold one destination and wait forever for the other's.
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
				first.Do(func() { patience = time.AfterFunc(p.limits.patience, func() { cancel(errSlow) }) })
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
		p.verdicts.set(k.dest.Name, p.stream.Name, *k.ended)
		k.ended = nil
	}
	if k.tx == nil { // otherwise the pass is one transaction, which continues
		p.emit(Event{Kind: EventCommit, Stream: p.stream.Name, Total: -1, Counts: k.sealed})
	}
}

func (p *pass) sweep(g *group, names bool) load.Sweep {
	if g.end == nil || g.end.Skipped > 0 || g.end.Partial {
		return load.Sweep{} // rows that the pass did not try to read are not missing
	}
	s := load.Sweep{Table: p.stream.Table.Name}
	if p.rowCheck != nil && names || g.total.rejected > 0 {
		s.List = maxAsked
	}
	return s
}

// tidy removes the files that no row names any more. Errors are ignored, because they do not affect the pass.
func (k *destinationRun) tidy(ctx context.Context, p *pass) {
	changed := k.sealed.Written > k.inserted || k.sealed.Deleted > 0 || p.resumes
	if changed && k.folder.Stores(p.stream) {
		_ = k.folder.Tidy(ctx, k.dest, p.stream)
	}
}

func (k *destinationRun) addCosts(p *pass) {
	r := &k.report
	r.Counts = r.Counts.Add(k.sealed)
	r.Passes++
	r.Pages += p.total.pages
	r.Requests += p.requests()
	r.Bytes += p.total.bytes
}

func (p *pass) requests() int {
	if p.rowCheck == nil {
		return p.total.requests
	}
	return p.total.requests + p.rowCheck.requests
}
