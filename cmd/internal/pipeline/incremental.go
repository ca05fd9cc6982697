package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
)

// knownPages is how many pages in a row must have had nothing new, before a list
// that shows the latest change first is taken to have nothing new further on:
// one may be all known by chance, where what is new has slipped to the next.
const knownPages = 2

// mayEnd ends a pass over such a list as soon as it may. It commits every few
// pages, since only the destinations can tell what they know, key by key and
// hash by hash, and waits for them.
func (p *pass) mayEnd(ctx context.Context, groups chan<- *group, exit *extract.Exit) (bool, error) {
	if p.unasked++; p.unasked < knownPages {
		return false, nil
	}
	p.unasked = 0
	before := p.news()
	if err := p.send(ctx, groups); err != nil {
		return false, err
	}
	p.open.Wait()
	if p.news() != before || p.lost() {
		return false, nil
	}
	g := p.group
	g.next, g.end, g.ended = position{pass: p.id, at: exit.Next, end: true}, exit.End, time.Now().UTC()
	return true, p.send(ctx, groups)
}

// news is how much of the pass the destinations did not know. Nothing may be
// under way.
func (p *pass) news() (n int64) {
	for _, k := range p.sinks {
		if k.out {
			n++
		}
		n += k.sealed.Written + k.sealed.Rejected
	}
	return n
}

// wholly is the stream as it is read where a pass stands for all of it: what a
// pass in one transaction does not carry is taken for gone.
func (st *streamRun) wholly() schemas.Stream {
	s := st.stream
	if !st.parts() {
		s.Incremental, s.Range = schemas.Incremental{}, schemas.Range{Whole: true}
	}
	return s
}

// unseen is how many changes a whole reading has found at least that an
// incremental one would have left out.
func (r reading) unseen() int64 {
	if !r.whole || r.end.Before.IsZero() {
		return 0
	}
	return max(0, r.counts.Written-r.end.Recent)
}

// overlooked tells of changes that an incremental reading would have missed.
func (r reading) overlooked() []Notice {
	n := r.unseen()
	if n == 0 {
		return nil
	}
	return []Notice{{Severity: Warned, About: NoticeIncremental,
		Reason: fmt.Sprintf("at least %d changes bear no later time and would not have been seen by an incremental reading: from now on every pass reads the whole list", n)}}
}
