package extract

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/penstock-data/penstock/extract/paging"
)

const farBeyond = 1_000_000

// past() finds out whether the server has refused a page because the list ends before it. The argument err is the
// refusal. The list has ended if its total was reached. Otherwise two probes decide. The server must refuse a page far
// after the end with the same status, and it must still return the last page unchanged.
func (l *listReader) past(ctx context.Context, at paging.Position, err error) (*step, bool) {
	refused, ok := paging.EndStatus(err)
	if !ok || l.pages == 0 || l.pager.Rows == 0 {
		return nil, false
	}
	all := l.lastTotal >= 0 && l.lastTotal == l.pager.Rows && l.lastSignals.Remaining <= 0 && l.lastSignals.More != paging.Yes
	all = all && (l.pages > 1 || !l.full()) // the total of a single full page may count only that page
	counted := at.Counts()
	switch {
	case all:
	case refused == http.StatusForbidden, l.lastSignals.Remaining > 0:
		return nil, false
	case l.pages == 1 && l.lastSignals.More == paging.Yes:
		return nil, false // the list has another page, which may need another parameter
	case !counted || l.lastTotal > l.pager.Rows || l.pager.Last > 0 && at.Kind == paging.KindPage && at.Number() <= l.pager.Last:
		return nil, false
	default:
		far := at
		far.At = strconv.FormatInt(at.Number()+farBeyond, 10)
		if !l.refusedAgain(ctx, far, refused) {
			return nil, false
		}
	}
	if !all {
		if l.full() && !l.refusedAgain(ctx, at, refused) {
			return nil, false // the server does not refuse the page again
		}
		again, gone := l.reread(ctx, l.ends.at)
		if gone != nil {
			return nil, false // the server now refuses the whole list
		}
		same := paging.Sum(again.batch.Keys) == l.ends.print
		l.c.release(again.a)
		if !same {
			return nil, false
		}
	}
	l.requests += requestsOf(err)
	l.capped = !all && l.full()
	l.pages++
	rule := RuleEmptyPage
	if all {
		rule = RuleTotal
	}
	// The signals of the last page still count: the refusal does not explain them.
	return &step{at: at, total: l.lastTotal, Continuation: paging.Continuation{Rule: rule}, signals: l.lastSignals}, true
}

// full() reports whether the last page was full. It compares the page with the pages before it, or with the requested
// size. If neither exists, a round number of records counts as full.
func (l *listReader) full() bool {
	switch n, p := l.lastN, l.s.Pagination; {
	case l.pages > 1:
		return int64(n) >= l.pager.Step
	case p.Size != "":
		return n >= p.Limit
	default:
		return paging.Round(n)
	}
}

// clamps() recognizes a server that returns its last page for every page after the end. If the first page holds all
// records, the second page repeats it. To be sure, clamps() requests the second page again, without a page size. Then
// the server uses its own, smaller size, so the page must begin with another record of the first page.
func (l *listReader) clamps(ctx context.Context, st *step) error {
	size := l.s.Pagination.Size
	if l.pages != 1 || st.at.Kind != paging.KindPage || size == "" || !l.pager.Settled || st.batch.N < 2 || paging.Sum(st.batch.Keys) != l.firstPrint {
		return nil
	}
	l.s.Pagination.Size = ""
	defer func() { l.s.Pagination.Size = size }()
	own, err := l.look(ctx, st.at)
	if paging.Refused(err) {
		return nil // guard() returns an error for the page
	}
	if err != nil {
		return err
	}
	defer l.c.release(own.a)
	if n := own.batch.N; n > 0 && n < st.batch.N && own.batch.Keys[0] != st.batch.Keys[0] && paging.Compare(st.batch.Hashes, own.batch.Hashes) == paging.FewerRecords {
		l.clampedTo = st.at.Number() - 1
	}
	return nil
}

// renamedPage compares a page with the first page if both have the same keys. If the records differ, the key does not
// identify records, and the result is an error.
func (l *listReader) renamedPage(ctx context.Context, st *step) error {
	if l.pages < 2 || len(l.s.Key) == 0 || st.batch.N < paging.LeastRenamed || st.at.Kind == paging.KindCursor || paging.Sum(st.batch.Keys) != l.firstPrint {
		return nil
	}
	here, shallow, err := l.deepen(st)
	defer shallow()
	if err != nil {
		return err
	}
	first, err := l.reread(ctx, paging.Position{})
	if err != nil {
		return err
	}
	defer l.c.release(first.a)
	if !paging.Renamed(first.batch.Hashes, here.Hashes) {
		return nil
	}
	again, err := l.reread(ctx, paging.Position{})
	if err != nil {
		return err
	}
	defer l.c.release(again.a)
	if paging.Sum(first.batch.Content) != paging.Sum(again.batch.Content) {
		return nil // the records change whenever they are read
	}
	return malformed(l.s, st.at, l.changed(&keyRepeatsError{l.s.Key}))
}

// checkConstantToken handles a page whose token leads to this page itself. Usually that is the last page of the list.
// But some servers send the same token with every page. If another request returns other records, checkConstantToken
// returns an error. If the page is an answer to a probe, checkConstantToken sends two requests. The reason is that a
// request for the first page may have been sent since the probe. After such a request, these servers begin again with
// the first page.
func (l *listReader) checkConstantToken(ctx context.Context, st *step) error {
	if st.Rule != RuleNoNext || st.at.Kind != paging.KindCursor || st.batch.N == 0 || st.signals.Token != st.at.At || st.signals.More == paging.No {
		return nil
	}
	rereads := 1
	if st.a.requests == 0 { // an answer to a probe
		rereads = 2
	}
	for range rereads {
		again, err := l.reread(ctx, st.at)
		if err != nil {
			return err
		}
		other := paging.Compare(st.batch.Hashes, again.batch.Hashes) == paging.OtherRecords
		l.c.release(again.a)
		if other {
			return malformed(l.s, st.at, errors.New("the token never changes, but returns other records each time"))
		}
	}
	return nil
}
