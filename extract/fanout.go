package extract

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

const (
	gatherBytes   = 128 << 10
	gatherParents = 200
)

// tuples are the requests of a stream. A tuple consists of the parameter values of one request. Every iteration yields
// the tuples in the same order.
type tuples interface {
	tuples() iter.Seq2[tuple, error]
	count() int
}

type fanPass struct {
	*pass
	over    tuples
	fed     []schemas.Param
	windows *windows // the tuples, if they are time windows; otherwise nil
	traits  endpointTraits
	done    uint64      // fingerprint of the finished tuples
	list    *ParentList // how the parents were read; nil if this run has a pass over the parent stream
	test    parameterTest

	records  []byte
	cuts     []int // offsets at which records may be cut into parts
	size     int64
	files    []File
	gaps     []Gap // gaps of the next page; mark.Gaps has those of the whole pass
	parents  []Parent
	current  Parent
	answered bool // the request for at least one parent was answered
	refusal  error
	failed   int      // parents that were requested and could not be read
	ofStream bool     // the current error concerns the stream, not one parent
	controls []string // tuples that othersAnswer() may request again
	requests int
	bytes    int64
}

func (p *pass) fanOut(ctx context.Context) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		f, err := p.c.feedOf(p.s)
		if err != nil {
			yield(Page{}, err)
			return
		}
		spool, err := f.spool(ctx, p.s)
		if err != nil {
			yield(Page{}, fmt.Errorf("stream %s: %w", p.s.Name, err))
			return
		}
		over := newKeyedTuples(p.s, spool)
		if spool.count() > 0 && over.none() {
			if err := p.valueless(ctx); err != nil {
				yield(Page{}, err)
				return
			}
		}
		fan := &fanPass{pass: p, over: over, fed: fedOf(p.s), done: fnvBasis, list: f.parentList()}
		fan.execute(ctx, yield)
	}
}

func (f *fanPass) execute(ctx context.Context, yield func(Page, error) bool) {
	if err := f.resume(); err != nil {
		yield(Page{}, err)
		return
	}
	f.test.over = !f.testable()
	if more, err := f.run(ctx, yield); err != nil && more {
		yield(Page{}, err)
	}
}

func (f *fanPass) resume() error {
	if f.mark.Parents == 0 {
		return nil
	}
	n := 0
	for t, err := range f.over.tuples() {
		if err != nil {
			return err
		}
		if n == f.mark.Parents {
			break
		}
		if f.done = fnv1a(f.done, t.line); n >= f.mark.Parents-maxControls {
			f.controls = append(f.controls, string(t.line))
		}
		n++
	}
	if n != f.mark.Parents || f.sum() != f.mark.Tuples {
		f.mark, f.resumed = f.mark.restarted(f.s), false
		f.note = "the parent's records were no longer those of the interrupted pass, so the pass started again"
		f.done = fnvBasis
	}
	return nil
}

func (f *fanPass) sum() string { return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, f.done)) }

func skip(next func() (tuple, error, bool), n int) error {
	for range n {
		if _, err, _ := next(); err != nil {
			return err
		}
	}
	return nil
}

// run yields the records in the order of the tuples. more is false if the caller has left the loop early.
func (f *fanPass) run(ctx context.Context, yield func(Page, error) bool) (more bool, err error) {
	next, stop := iter.Pull2(f.over.tuples())
	defer stop()
	if err := skip(next, f.mark.Parents); err != nil {
		return true, err
	}
	w := &lookahead{next: next, sum: f.done}
	q := &ahead[string]{c: f.c, s: f.s, fetch: f.fetch, following: w.after}
	defer q.stop()
	if f.selects != nil {
		w.selects = func(t tuple) bool { return f.selects(Parent{Tuple: t.line, Fingerprint: t.print}, f.over.count()) }
	}
	for {
		w.size = f.reach()
		if err := w.fill(); err != nil {
			return true, err
		}
		if len(w.ahead) == 0 || f.windows.over(f.mark.Plan) {
			f.passOver(w.rest, w.sum)
			return f.end(yield)
		}
		t := w.ahead[0]
		q.fill(ctx, t.line)
		a, err := q.take(ctx, t.line)
		w.ahead = w.ahead[1:]
		if more, err := f.parent(ctx, t, w, a, err, yield); err != nil || !more {
			return more, err
		}
	}
}

type tupleRequest struct {
	line  string
	print uint64
	after int // number of tuples skipped directly before this one
	sum   uint64
}

type lookahead struct {
	next    func() (tuple, error, bool)
	selects func(tuple) bool // nil selects all tuples
	size    int
	ahead   []tupleRequest
	rest    int // number of tuples skipped after the last tuple in ahead
	sum     uint64
}

func (w *lookahead) fill() error {
	for len(w.ahead) < w.size {
		t, err, ok := w.next()
		if err != nil || !ok {
			return err
		}
		w.sum = fnv1a(w.sum, t.line)
		if w.selects != nil && !w.selects(t) {
			w.rest++
			continue
		}
		w.ahead = append(w.ahead, tupleRequest{string(t.line), t.print, w.rest, w.sum})
		w.rest = 0
	}
	return nil
}

// after() returns the tuple that follows the tuple with the index i.
func (w *lookahead) after(i int, _ string) (string, bool) {
	if i+1 >= len(w.ahead) {
		return "", false
	}
	return w.ahead[i+1].line, true
}

func (f *fanPass) fetch(ctx context.Context, line string, take func(int64) bool) (*answer, error) {
	params, err := bind(f.s, f.fed, line)
	if err != nil {
		return nil, err
	}
	return f.c.send(ctx, f.s, params, paging.Position{}, false, take)
}

// passOver counts n skipped tuples. The argument `sum` is the fingerprint of all tuples so far.
func (f *fanPass) passOver(n int, sum uint64) {
	f.mark.Parents += n
	f.mark.Skipped += n
	f.done = sum
}

// parent reads the list of one tuple to its end. The arguments a and err are the result of the request for the first
// page. A parent that no longer exists has no records.
func (f *fanPass) parent(ctx context.Context, t tupleRequest, w *lookahead, a *answer, err error, yield func(Page, error) bool) (more bool, _ error) {
	f.current = Parent{Tuple: []byte(t.line), Fingerprint: t.print}
	pages := f.mark.Pages
	if err == nil {
		if more, err = f.gather(ctx, t.line, a, yield); err == nil && !more {
			return false, nil
		}
	}
	if err := f.continueWithout(ctx, t, w, err, f.mark.Pages > pages); err != nil {
		return true, err
	}
	f.passOver(t.after, t.sum)
	f.mark.Parents++
	if f.windows != nil {
		f.mark.Plan.note(f.current.Records)
		return yield(f.page(nil), nil), nil
	}
	f.parents = append(f.parents, f.current)
	if int64(len(f.records))+f.size < gatherBytes && len(f.parents) < gatherParents {
		return true, nil
	}
	return yield(f.page(nil), nil), nil
}

func (f *fanPass) gather(ctx context.Context, line string, a *answer, yield func(Page, error) bool) (more bool, err error) {
	params, err := bind(f.s, f.fed, line)
	if err != nil {
		return true, err
	}
	l := f.c.newListReader(f.s, params, &f.traits)
	l.asm.copyLists = true
	for st, err := range l.walk(ctx, paging.Position{}, a) {
		f.requests += l.requests
		f.bytes += l.bytes
		l.requests, l.bytes = 0, 0
		if err != nil {
			return true, err
		}
		if l.pages == 1 {
			if err := f.testParameters(ctx, l, line, &st.batch); err != nil {
				f.ofStream = true
				return true, err
			}
		}
		f.mark.Pages++
		f.current.Records += int64(st.batch.N)
		if st.Rule != "" {
			unexplained := l.unexplained(st)
			f.mark.Incomplete, f.mark.Unexplained = someOf(f.mark.Incomplete, l.incomplete), someOf(f.mark.Unexplained, unexplained)
			f.current.Complete = !l.short(st) && len(l.gaps.all)+len(l.incomplete)+len(unexplained) == 0
		}
		if st.Rule != "" && l.short(st) {
			f.mark.Short++
		}
		if err := f.windows.check(f.pass, line, st.batch.records); err != nil {
			return true, err
		}
		f.append(&st.batch)
		f.gaps, f.mark.Gaps = append(f.gaps, st.gaps...), append(f.mark.Gaps, st.gaps...)
		if st.file != nil {
			f.files, f.size = append(f.files, *st.file), f.size+int64(len(st.file.Body))
		}
		if st.Rule == "" && len(f.records) >= gatherBytes && !yield(f.page(nil), nil) {
			return false, nil
		}
	}
	return true, nil
}

// short() reports whether the list of one parent is probably incomplete. That is so if its total differs from its
// number of records, or if the server may have cut it. The server may have cut a list without a total if its length is
// round and at least likelyLimit. Shorter lists may have a round length by chance.
func (l *listReader) short(end *step) bool {
	n := l.pager.Rows
	if l.lastTotal >= 0 {
		return l.lastTotal != n || l.firstTotal >= 0 && l.firstTotal != l.lastTotal
	}
	return end.Rule == RuleOnePage && n >= likelyLimit && paging.Round(int(n))
}

const likelyLimit = 50

func (f *fanPass) append(b *batch) {
	begin := len(f.records)
	switch {
	case len(b.records) == 0:
	case begin == 0:
		f.records = append(f.records, b.records...)
	default:
		f.records = append(append(f.records, ','), b.records[1:]...)
	}
	for _, cut := range b.cuts.at {
		f.cuts = append(f.cuts, begin+cut)
	}
}

// page returns the gathered records. The cursor of the page covers only the finished parents. After an interruption, a
// partly read parent is read again.
func (f *fanPass) page(end *End) Page {
	f.mark.Tuples = f.sum()
	b := batch{records: f.records}
	out := Page{Records: b.json(), cuts: f.cuts, Next: f.mark.cursor(), Requests: f.requests, Bytes: f.bytes, Total: -1,
		Files: f.files, Gaps: f.gaps, Parents: f.parents, End: end}
	if f.windows != nil {
		out.Windows = &Windows{Done: f.mark.Parents, Of: f.windows.count()}
	}
	if end != nil {
		out.Next = f.mark.ending()
	}
	f.records = f.records[:0]
	f.cuts, f.files, f.size, f.gaps, f.parents, f.requests, f.bytes = nil, nil, 0, nil, nil, 0, 0
	return out
}

// end() yields the last page. It returns an error if no parent could be read: then the endpoint is at fault, not the
// parents.
func (f *fanPass) end(yield func(Page, error) bool) (more bool, err error) {
	requested := f.mark.Parents - f.mark.Skipped
	if f.mark.Gone >= allGone && f.mark.Gone == requested {
		return true, &wire.Error{
			Class: wire.Missing, Method: f.s.Method, Path: f.s.Path, Attempts: f.requests,
			Message: fmt.Sprintf("not found for any of %d parents", f.mark.Gone),
		}
	}
	if n := int(f.withoutAnswer()); n > 0 && n+f.mark.Gone == requested && !f.answered && f.refusal != nil {
		return true, f.refusal
	}
	if f.windows != nil {
		return yield(f.page(f.windows.end(f)), nil), nil
	}
	return yield(f.page(&End{
		Rule: RuleParents, Resumed: f.resumed, Pages: f.mark.Pages, FirstTotal: -1, LastTotal: -1,
		Parents: requested, Skipped: f.mark.Skipped, Gone: f.mark.Gone, Short: f.mark.Short, Gaps: f.mark.Gaps, Note: f.note,
		ParentList: f.list, Incomplete: f.mark.Incomplete, Unexplained: f.mark.Unexplained,
	}), nil), nil
}

func (p *pass) byWindow(ctx context.Context) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		w := newWindows(p.s, p.mark.Plan)
		f := &fanPass{pass: p, over: w, fed: w.fed(), windows: w, done: fnvBasis}
		f.execute(ctx, yield)
	}
}

func (f *fanPass) reach() int {
	_, most := f.c.room(f.s)
	if f.windows != nil && f.mark.Plan.openStart() {
		return min(most, 4) // the pass may end at any window
	}
	return most
}

func (w *windows) end(f *fanPass) *End {
	m := &f.mark
	e := &End{
		Rule: RuleWindows, Resumed: f.resumed, Pages: m.Pages, FirstTotal: -1, LastTotal: -1,
		Windows: m.Parents, Short: m.Short, Gaps: m.Gaps, Note: f.note, Partial: m.Plan.Part,
		Incomplete: m.Incomplete, Unexplained: m.Unexplained,
	}
	if e.Partial {
		e.Since = m.Plan.From
	}
	return e
}
