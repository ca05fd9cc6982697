package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// Asker is implemented by sources that can be asked for one record;
// *extract.Client is one.
type Asker interface {
	// Present asks for the record of s that values lead to, JSON scalars by the
	// name of the parameter. Only where the source says that there is none may
	// the answer be no; anything else is an error.
	Present(ctx context.Context, s schemas.Stream, values map[string][]byte) (present bool, requests int, err error)
}

// What one pass may ask for, at most. // Invariant 15
const (
	maxAsked = 100
	askTime  = time.Minute // less than the other destinations' patience
	atOnce   = 8
)

// missingRowCheck asks the source for single records which a pass did not carry: where
// the list proves nothing, the record's own address may say that it is gone.
// The destinations of a pass share it.
type missingRowCheck struct {
	asker  Asker
	detail schemas.Stream
	param  string

	mu       sync.Mutex
	answers  map[string]answer // by key
	requests int
	note     string // why nothing that was answered counts
}

// answer is what came of asking for a record.
type answer int

const (
	unasked answer = iota // or no answer to go by
	isGone
	isThere
)

// newMissingRowCheck is the inquest of a pass over s; nil where its records have no
// address of their own.
func (r *run) newMissingRowCheck(s schemas.Stream) *missingRowCheck {
	asker, ok := r.Source.(Asker)
	detail, found := detailOf(s, r.Catalogue)
	if !ok || !found {
		return nil
	}
	return &missingRowCheck{asker: asker, detail: detail, param: detail.Params[0].Name, answers: map[string]answer{}}
}

// plainlyKeyed reports whether a stream has a key of one column, which stands in
// the table as the source has it.
func plainlyKeyed(s schemas.Stream) bool {
	return len(s.Key) == 1 && !s.Verdict(schemas.PathPointer(s.Key[0])).Touched()
}

// detailOf is the stream that gives one record of a list by its key.
func detailOf(s schemas.Stream, catalogue []schemas.Stream) (schemas.Stream, bool) {
	if !plainlyKeyed(s) {
		return schemas.Stream{}, false
	}
	i := slices.IndexFunc(catalogue, func(d schemas.Stream) bool {
		return d.Class == schemas.ClassDetail && d.Enabled && d.Method == "GET" && d.Parent == s.Name &&
			len(d.Params) == 1 && d.Params[0].In == "path" && schemas.Column(d.Params[0].From) == s.Key[0]
	})
	if i < 0 {
		return schemas.Stream{}, false
	}
	return catalogue[i], true
}

// hear asks for the records with these keys, as far as that was not done yet.
// control is the key of a record that the pass did carry: if its address does
// not give it, before and after, nobody's address says anything. // Invariant 12
func (q *missingRowCheck) hear(ctx context.Context, control string, keys []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	keys = slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return q.answers[k] != unasked })
	keys = keys[:max(0, min(len(keys), maxAsked-len(q.answers)))]
	if len(keys) == 0 || q.note != "" || !q.sound(ctx, control) {
		return
	}
	heard := q.all(ctx, keys)
	if slices.Contains(heard, isGone) && !q.sound(ctx, control) {
		return
	}
	for i, k := range keys {
		q.answers[k] = heard[i]
	}
}

// sound reports whether a record that is there is found to be.
func (q *missingRowCheck) sound(ctx context.Context, control string) bool {
	if control == "" {
		q.note = "the pass carried no record to try " + q.detail.Name + " with"
		return false
	}
	there, n, err := q.asker.Present(ctx, q.detail, q.values(control))
	q.requests += n
	if err == nil && !there {
		err = errors.New("it does not have a record that the list has")
	}
	if err != nil {
		q.note = fmt.Sprintf("%s tells nothing: %v", q.detail.Name, err)
	}
	return err == nil
}

// all asks for several records at once. An answer that others would get as well
// ends it.
func (q *missingRowCheck) all(ctx context.Context, keys []string) []answer {
	heard := make([]answer, len(keys))
	counts := make([]int, len(keys))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(atOnce)
	for i, k := range keys {
		asking.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			there, n, err := q.asker.Present(ctx, q.detail, q.values(k))
			counts[i] = n
			switch e, ok := errors.AsType[*wire.Error](err); {
			case err == nil && there:
				heard[i] = isThere
			case err == nil:
				heard[i] = isGone
			case ok && e.Class != wire.Malformed && e.Class != wire.Invalid:
				return err
			}
			return nil
		})
	}
	_ = asking.Wait() // what is left stays unasked
	for _, n := range counts {
		q.requests += n
	}
	return heard
}

func (q *missingRowCheck) values(key string) map[string][]byte {
	return map[string][]byte{q.param: []byte(key)}
}

// findings are what an inquest has found about the rows that one destination
// misses.
type findings struct {
	asked, gone, there int64
	note               string

	keys []arrow.RecordBatch // of those that are gone
}

// findings looks up what is known of the rows in missing.
func (q *missingRowCheck) findings(missing []arrow.RecordBatch) *findings {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := &findings{note: q.note, keys: []arrow.RecordBatch{}}
	for _, b := range missing {
		for i := range b.NumRows() {
			switch q.answers[keyJSON(b.Column(0), int(i))] {
			case isGone:
				f.gone++
				f.keys = append(f.keys, b.NewSlice(i, i+1))
			case isThere:
				f.there++
			}
		}
	}
	f.asked = f.gone + f.there
	return f
}

func (f *findings) release() {
	if f != nil {
		releaseAll(f.keys)
	}
}

func releaseAll(bs []arrow.RecordBatch) {
	for _, b := range bs {
		b.Release()
	}
}

// keysOf are the values of a key of one column, as JSON.
func keysOf(bs []arrow.RecordBatch) []string {
	var keys []string
	for _, b := range bs {
		for i := range int(b.NumRows()) {
			if k := keyJSON(b.Column(0), i); k != "" {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// keyJSON is the cell i of a key column as a JSON scalar; "" for a type that is
// not that of a key in a path.
func keyJSON(a arrow.Array, i int) string {
	switch a := a.(type) {
	case *array.Int64:
		return strconv.FormatInt(a.Value(i), 10)
	case *array.String:
		b, _ := json.Marshal(a.Value(i)) // a string always marshals
		return string(b)
	}
	return ""
}

// controlOf is the key of a batch's first row, "" where it is no key to ask
// with.
func controlOf(t schemas.Table, b arrow.RecordBatch) string {
	if len(t.Key) != 1 || b.NumRows() == 0 {
		return ""
	}
	at := b.Schema().FieldIndices(t.Key[0])
	if len(at) != 1 {
		return ""
	}
	return keyJSON(b.Column(at[0]), 0)
}
