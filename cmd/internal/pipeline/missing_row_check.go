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

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// These interfaces are optional: the pipeline checks at run time whether a source implements them. *extract.Client
// implements them.
var (
	_ RecordSource    = (*extract.Client)(nil)
	_ PassListener    = (*extract.Client)(nil)
	_ StreamCompleter = (*extract.Client)(nil)
)

// Limits of one pass's requests for missing records. // Invariant 15
const (
	maxAsked = 100
	askTime  = time.Minute // less than limits.patience
	atOnce   = 8
)

// missingRowCheck requests single records that a pass did not contain. The destinations of a pass share it.
type missingRowCheck struct {
	source RecordSource
	detail schemas.Stream
	param  string

	mu       sync.Mutex
	answers  map[string]answer
	requests int
	note     string // why the answers must not be used; "" if they may be used
}

type answer int

const (
	unasked answer = iota // not requested, or no usable answer
	isGone
	isThere
)

func newMissingRowCheck(from Source, catalogue []schemas.Stream, s schemas.Stream) *missingRowCheck {
	source, ok := from.(RecordSource)
	detail, found := s.Detail(catalogue)
	if !ok || !found {
		return nil
	}
	return &missingRowCheck{source: source, detail: detail, param: detail.Params[0].Name, answers: map[string]answer{}}
}

// request requests the records with these keys, each at most once. The parameter `control` is the key of a record that
// the pass contained. That record is requested first and last. The answers are used only if the source returns it both
// times. Invariant 12
func (q *missingRowCheck) request(ctx context.Context, control string, keys []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	keys = slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return q.answers[k] != unasked })
	keys = keys[:max(0, min(len(keys), maxAsked-len(q.answers)))]
	if len(keys) == 0 || q.note != "" || !q.findsControl(ctx, control) {
		return
	}
	answers := q.all(ctx, keys)
	if slices.Contains(answers, isGone) && !q.findsControl(ctx, control) {
		return
	}
	for i, k := range keys {
		q.answers[k] = answers[i]
	}
}

func (q *missingRowCheck) findsControl(ctx context.Context, control string) bool {
	if control == "" {
		q.note = "the pass had no record to test " + q.detail.Name + " with"
		return false
	}
	record, n, err := q.source.Record(ctx, q.detail, q.values(control))
	q.requests += n
	if err == nil && record == nil {
		err = errors.New("it does not find a record that is in the list")
	}
	if err != nil {
		q.note = fmt.Sprintf("%s cannot confirm that records are gone: %v", q.detail.Name, err)
	}
	return err == nil
}

func (q *missingRowCheck) all(ctx context.Context, keys []string) []answer {
	answers := make([]answer, len(keys))
	counts := make([]int, len(keys))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(atOnce)
	for i, k := range keys {
		asking.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			record, n, err := q.source.Record(ctx, q.detail, q.values(k))
			counts[i] = n
			switch e, ok := errors.AsType[*wire.Error](err); {
			case err == nil && record != nil:
				answers[i] = isThere
			case err == nil:
				answers[i] = isGone
			case ok && e.Class != wire.Malformed && e.Class != wire.Invalid:
				return err
			}
			return nil
		})
	}
	_ = asking.Wait()
	for _, n := range counts {
		q.requests += n
	}
	return answers
}

func (q *missingRowCheck) values(key string) map[string][]byte {
	return map[string][]byte{q.param: []byte(key)}
}

type findings struct {
	answered, gone, there int64
	note                  string

	keys []arrow.RecordBatch
}

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
	f.answered = f.gone + f.there
	return f
}

func (f *findings) release() {
	if f != nil {
		batch.Release(f.keys)
	}
}

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

func keyJSON(a arrow.Array, i int) string {
	switch a := a.(type) {
	case *array.Int64:
		return strconv.FormatInt(a.Value(i), 10)
	case *array.String:
		b, _ := json.Marshal(a.Value(i))
		return string(b)
	}
	return ""
}

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
