package pipeline

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/schemas"
)

func (p *pass) read(ctx context.Context) error {
	rd, err := p.prepare(ctx)
	if err != nil {
		return err
	}
	defer rd.mapper.Close()
	if p.lost() {
		return nil
	}
	p.allowDeltas()
	err = p.through(ctx, rd)
	if p.hasOverlays() {
		if lost := p.retakeLock(ctx); err == nil {
			err = lost
		}
	}
	return err
}

func (p *pass) through(ctx context.Context, rd *reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	groups := make(chan *group)
	var committer sync.WaitGroup
	committer.Go(func() { p.commitAll(ctx, groups, cancel) })
	err := Guard(p.stream.Name, func() error { return rd.gather(ctx, groups) })
	p.drop(rd.group)
	close(groups)
	committer.Wait()
	if errors.Is(err, errCommit) {
		return nil
	}
	return err
}

// prepare opens the destinations of the pass, and starts the mapper with the tables of all of them. So the types of
// columns do not depend on the order of the destinations.
func (p *pass) prepare(ctx context.Context) (*reader, error) {
	rd := &reader{p: p, key: keyJudge{p: p}, hasher: p.run.hash(), group: &group{begun: time.Now()}, refused: rejectedKeys{unknown: !p.stream.PlainKey()}}
	var known [][]schemas.Table
	settled := true
	p.parents = p.newParentTracker()
	for _, k := range p.destinations {
		tables, err := k.enter(ctx, p)
		if err != nil {
			k.drop(p, err)
			continue
		}
		if err := p.otherKey(tables); err != nil {
			return nil, err
		}
		known = append(known, tables)
		p.watch.settled = p.watch.settled || slices.ContainsFunc(tables, func(t schemas.Table) bool { return t.Name == p.stream.Table.Name })
		if k.rejects != nil {
			rd.met.Watch(k.rejects)
		}
		settled = settled && p.run.settled[k.dest.Name]
		if p.parents != nil && k.parentage != nil {
			p.parents.Know(k.parentage, k.again)
			k.again = nil
		}
	}
	if p.parents != nil && !p.partialBackfill() {
		p.parents.Skip()
	}
	if p.parts() && p.stream.Table.Mode != schemas.Append {
		p.rowCheck = newMissingRowCheck(p.run.Source, p.run.Catalogue, p.stream)
	}
	p.total.requests, p.probeRequests = p.probeRequests, 0
	have := schemas.JoinTables(known...)
	p.restKnown = slices.ContainsFunc(have, func(t schemas.Table) bool { return t.Columns != nil && t.Columns.HasField(schemas.ColRest) })
	return rd, rd.open(have, settled)
}
