package extract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// Hypotheses about a stream's parameters. A hypothesis is refuted if the source ignores the parameters. Each constant
// is also the name of a field in pipelines.yaml.
const (
	HypothesisMonths = "months" // parameters select the month that the list shows
	HypothesisParent = "parent" // parameters select the parent whose records the list shows
)

// RefutedError is returned by [Client.Pages] if the source ignores parameters that the catalogue lists for a stream.
// [Convention.WithoutRefuted] returns the stream without these parameters.
type RefutedError struct {
	Stream     string
	Hypothesis string // one of the Hypothesis constants
	Seen       string // the evidence

	// Temporary reports that a later pass may confirm the hypothesis, because at present no parent has a value for
	// the parameters.
	Temporary bool
}

// Error returns the evidence.
func (e *RefutedError) Error() string { return e.Seen }

// WithoutRefuted returns s without the hypotheses that c lists as refuted. It keeps what the user or an API
// description states.
func (c Convention) WithoutRefuted(s schemas.Stream) schemas.Stream {
	for _, about := range c.Dropped {
		switch {
		case s.Stated[about] != "":
		case about == HypothesisMonths:
			s.Key = WithoutContext(s, s.Key)
			s.Months = schemas.Months{}
		case about == HypothesisParent:
			s.Key = WithoutContext(s, s.Key)
			s.Parent = ""
			s.Params = slices.DeleteFunc(slices.Clone(s.Params), func(p schemas.Param) bool { return p.From != "" })
		}
	}
	return s
}

// WithoutContext returns key without the columns that [ContextColumns] returns.
func WithoutContext(s schemas.Stream, key []string) []string {
	columns := ContextColumns(s)
	return slices.DeleteFunc(slices.Clone(key), func(k string) bool { return slices.Contains(columns, k) })
}

// ContextColumns returns the columns that hold the parameters of a record's request: values of the parent record, or
// month and year.
func ContextColumns(s schemas.Stream) []string {
	var columns []string
	for _, p := range s.Params {
		if p.From != "" {
			columns = append(columns, schemas.Column("/"+records.ContextKey+"/"+p.Name))
		}
	}
	if s.Months.Set() {
		columns = append(columns, schemas.Column("/"+records.ContextKey+"/"+s.Months.Month), schemas.Column("/"+records.ContextKey+"/"+s.Months.Year))
	}
	return columns
}

func refute(s schemas.Stream, about, seen string) error {
	if s.Stated[about] == "" {
		return &RefutedError{Stream: s.Name, Hypothesis: about, Seen: seen}
	}
	remove := "remove `parent` and the parameters with `from`"
	if about == HypothesisMonths {
		remove = "set `months: none`, or remove `months`"
	}
	return malformed(s, paging.Position{}, fmt.Errorf("%s; %s under streams, %s in pipelines.yaml", seen, remove, s.Name))
}

// parameterTest finds out whether the source uses the parameters of a stream. It compares the answers for the first two
// values. If they are equal, it sends a third request with a value that does not exist in the source.
type parameterTest struct {
	over  bool
	line  string
	print answerPrint
}

// answerPrint has fingerprints of an answer: of the keys of its records, and of the values of each member. The context
// and the volatile members are left out.
type answerPrint struct {
	records int
	keys    uint64
	members map[string]uint64
}

func (p answerPrint) differs(o answerPrint) (members map[string]bool, ok bool) {
	members = map[string]bool{}
	for _, pair := range [][2]map[string]uint64{{p.members, o.members}, {o.members, p.members}} {
		for name, sum := range pair[0] {
			if pair[1][name] != sum {
				members[name] = true
			}
		}
	}
	return members, p.records == o.records && p.keys == o.keys
}

func (l *listClient) printOf(b *batch) (answerPrint, error) {
	p := answerPrint{records: b.N, members: map[string]uint64{}}
	if b.N == 0 {
		return p, nil
	}
	d := l.c.docs.Get().(*jsondoc.Doc)
	defer l.c.docs.Put(d)
	if err := d.Scan(append(slices.Clone(b.records), ']')); err != nil {
		return p, err
	}
	for r := range d.Elements(d.Root()) {
		key, keyed := l.asm.key(d, r)
		if !keyed {
			key = l.asm.content(d, r)
		}
		p.keys += scatter(key)
		if !d.IsObject(r) {
			continue
		}
		for name, v := range d.Members(r) {
			if string(name) != records.ContextKey && !slices.Contains(l.s.Volatile, string(name)) {
				p.members[string(name)] += scatter(fnv1a(key, d.Raw(v)))
			}
		}
	}
	return p, d.Err()
}

func (f *fanPass) testParameters(ctx context.Context, l *listReader, line string, b *batch) error {
	t := &f.test
	if t.over || b.N == 0 {
		return nil
	}
	print, err := l.printOf(b)
	if err != nil {
		return err
	}
	if t.line == "" {
		t.line, t.print = line, print
		return nil
	}
	t.over = true
	ignored, err := f.ignoresParameters(ctx, line, print)
	if err != nil || !ignored {
		return err
	}
	names := make([]string, len(f.fed))
	for i, p := range f.fed {
		names[i] = p.Name
	}
	about := HypothesisParent
	if f.windows != nil {
		about = HypothesisMonths
	}
	return refute(f.s, about, fmt.Sprintf("the source ignores %s: it returned the same %d records for %s, for %s and for a value that does not exist",
		strings.Join(names, " and "), print.records, t.line, line))
}

// ignoresParameters compares three answers: for the given tuple, for the first tuple, and for values that do not exist
// in the source. It ignores members whose values also differ if the same request is repeated.
func (f *fanPass) ignoresParameters(ctx context.Context, line string, print answerPrint) (bool, error) {
	differing, same := print.differs(f.test.print)
	if !same {
		return false, nil
	}
	volatile := map[string]bool{}
	if len(differing) > 0 {
		again, ok, err := f.peek(ctx, line)
		if err != nil || !ok {
			return false, err
		}
		if volatile, ok = print.differs(again); !ok || !within(differing, volatile) {
			return false, nil
		}
	}
	none, ok, err := f.peek(ctx, nonexistent(f.windows != nil, line))
	if err != nil || !ok {
		return false, err
	}
	differing, same = print.differs(none)
	return same && within(differing, volatile), nil
}

func within(part, whole map[string]bool) bool {
	for name := range part {
		if !whole[name] {
			return false
		}
	}
	return true
}

func (f *fanPass) peek(ctx context.Context, line string) (print answerPrint, ok bool, err error) {
	params, err := bind(f.s, f.fed, line)
	if err != nil {
		return print, false, err
	}
	l := f.c.newListReader(f.s, params, &f.traits)
	l.asm.copyLists = true
	a, err := f.c.fetch(ctx, f.s, params, paging.Position{})
	f.requests += requestsOf(err)
	if err != nil {
		if ctx.Err() != nil {
			return print, false, context.Cause(ctx)
		}
		return print, false, nil
	}
	defer f.c.release(a)
	f.requests += a.requests
	f.bytes += a.bytes
	at, err := l.locate(a.d)
	if err != nil {
		return print, false, nil
	}
	var b batch
	if err := l.asm.assemble(a.d, at, &b); err != nil {
		return print, false, nil
	}
	print, err = l.printOf(&b)
	return print, err == nil, nil
}

func nonexistent(months bool, line string) string {
	if months {
		return "[1,1901]"
	}
	var values []json.RawMessage
	_ = json.Unmarshal([]byte(line), &values)
	for i, v := range values {
		if values[i] = json.RawMessage(`"penstock-none"`); len(v) > 0 && v[0] >= '0' && v[0] <= '9' {
			values[i] = json.RawMessage("2147480000")
		}
	}
	out, _ := json.Marshal(values)
	return string(out)
}

// testable() returns false for parameters in the path, because the server cannot ignore them.
func (f *fanPass) testable() bool {
	if f.windows != nil {
		return f.s.Months.Set()
	}
	return !slices.ContainsFunc(f.fed, func(p schemas.Param) bool { return p.In == "path" })
}

// keyedTuples leaves out the tuples that lack a value of the stream's key. Nothing is requested for the parent of such
// a tuple, because the key could not distinguish this parent's records from those of other parents.
type keyedTuples struct {
	*paramSpool
	at []int
}

func newKeyedTuples(s schemas.Stream, spool *paramSpool) keyedTuples {
	n := keyedTuples{paramSpool: spool}
	for i, p := range fedOf(s) {
		if slices.Contains(s.Key, schemas.Column("/"+records.ContextKey+"/"+p.Name)) {
			n.at = append(n.at, i)
		}
	}
	return n
}

func (n keyedTuples) has(line []byte) bool {
	if len(n.at) == 0 {
		return true
	}
	var values []json.RawMessage
	if json.Unmarshal(line, &values) != nil {
		return true // the request reports the error
	}
	return !slices.ContainsFunc(n.at, func(i int) bool { return i < len(values) && string(values[i]) == "null" })
}

func (n keyedTuples) tuples() iter.Seq2[tuple, error] {
	return func(yield func(tuple, error) bool) {
		for t, err := range n.paramSpool.tuples() {
			if err == nil && !n.has(t.line) {
				continue
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

func (n keyedTuples) none() bool {
	if len(n.at) == 0 {
		return false
	}
	for range n.tuples() { //nolint:errcheck // a tuple that cannot be read may have a value for each parameter
		return false
	}
	return true
}

// valueless is called if no parent has a value for the parameters. If a request without the parameters returns
// records, valueless() returns a [RefutedError], and the stream is read without its parent.
func (p *pass) valueless(ctx context.Context) error {
	if p.s.Stated[HypothesisParent] != "" {
		return nil
	}
	simple := Convention{Dropped: []string{HypothesisParent}}.WithoutRefuted(p.s)
	params, err := constants(simple)
	if err != nil || slices.ContainsFunc(fedOf(p.s), func(p schemas.Param) bool { return p.In == "path" }) {
		return nil
	}
	a, err := p.c.fetch(ctx, simple, params, paging.Position{})
	if err != nil {
		fault, ok := errors.AsType[*wire.Error](err)
		if ok && (fault.Class == wire.Invalid || fault.Class == wire.Missing || paging.FailsOnData(fault)) {
			return nil // the list cannot be read without the parameters
		}
		return err
	}
	defer p.c.release(a)
	at, err := records.Find(a.d, simple)
	if err != nil || len(records.RowsOf(a.d, at)) == 0 {
		return nil
	}
	return &RefutedError{Stream: p.s.Name, Hypothesis: HypothesisParent, Temporary: true,
		Seen: fmt.Sprintf("no record of %s has a value for the parameters, and the list returns records without them", p.s.Parent)}
}
