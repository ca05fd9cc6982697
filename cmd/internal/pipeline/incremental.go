package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
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
	if err := p.send(ctx, groups); err != nil {
		return false, err
	}
	p.open.Wait()
	heard := p.heard
	if p.heard = p.news(); p.heard != heard || p.lost() { // since they were asked last: a group may have gone out in between
		p.familiar = p.total.fetched
		return false, nil
	}
	if told := p.told(); told > 0 && p.total.fetched-p.familiar <= told {
		return false, nil
	}
	g := p.group
	g.next, g.end, g.ended = position{pass: p.id, at: exit.Next, end: true}, exit.End, p.Now().UTC()
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

// told is how many rows a destination may know from events alone: that they come
// first in a list says nothing about the changes behind them, which no event may
// have announced.
func (p *pass) told() (n int64) {
	for _, k := range p.sinks {
		if a, err := k.main.applied(); err == nil && !k.out {
			n = max(n, a.Fresh)
		}
	}
	return n
}

// wholly has the whole list read where a pass stands for all of it: what one in a
// single transaction does not carry is taken for gone. Of a backfill it is the part
// that is asked for.
func (st *streamRun) wholly() {
	st.stream.Range = st.rangeOf()
	if st.stream.Range.Whole {
		st.stream.Incremental = schemas.Incremental{}
	}
}

// rules is a fingerprint of what becomes of the records of a list that is read
// in parts: where it has changed, rows do that no reading of a part carries. It
// is "" for other lists.
func (st *streamRun) rules() string {
	if !st.stream.Incremental.Set() && !st.stream.Months.Set() {
		return ""
	}
	return strconv.FormatUint(definition(st.stream), 36)
}

// errForgotten ends the search for one.
var errForgotten = errors.New("a row is to be written anew")

// forgotten reports whether rows are to be written anew, as they were when a
// column was widened and could not keep them as they had come: no reading of a
// part carries them. // Invariant 11
func (k *sink) forgotten(ctx context.Context, st *streamRun) (bool, error) {
	columns := []string{schemas.ColHash, standing(st.stream)}
	err := k.dest.Scan(ctx, st.stream.Table.Name, columns, func(b arrow.RecordBatch) error {
		for row := range int(b.NumRows()) {
			if b.Column(1).IsNull(row) && cellText(b.Column(0), row) == "" {
				return errForgotten
			}
		}
		return nil
	})
	if errors.Is(err, errForgotten) {
		return true, nil
	}
	return false, err
}

// overlooked reports changes that an incremental reading would have missed.
func overlooked(f *proof.Facts) []Notice {
	n := f.Overlooked()
	if n == 0 {
		return nil
	}
	return []Notice{{Severity: Warned, About: NoticeIncremental,
		Reason: fmt.Sprintf("at least %d changes bear no later time and would not have been seen by an incremental reading: from now on every pass reads the whole list", n)}}
}
