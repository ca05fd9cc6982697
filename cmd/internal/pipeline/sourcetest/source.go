// Package sourcetest has a source of lists for tests. The test decides about the pages, totals and failures of the
// lists.
package sourcetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Stream returns a stream whose records have the key id.
func Stream(name string) schemas.Stream {
	return schemas.Stream{
		Table: schemas.Table{Name: name, Key: []string{"id"}},
		Name:  name, Surface: schemas.SurfaceApp, Class: schemas.ClassList,
	}
}

// Keyless returns a stream without a key.
func Keyless(name string) schemas.Stream {
	s := Stream(name)
	s.Key = nil
	return s
}

// Record is one record of a list.
type Record struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

// MarshalJSON writes a negative id as null, so that no table can store the record.
func (r Record) MarshalJSON() ([]byte, error) {
	id := strconv.Itoa(r.ID)
	if r.ID < 0 {
		id = "null"
	}
	return fmt.Appendf(nil, `{"id":%s,"name":%q}`, id, r.Name), nil
}

// Records returns the records whose ids are at least first and less than end.
func Records(first, end int) []Record {
	var rs []Record
	for i := first; i < end; i++ {
		rs = append(rs, Record{i, "n" + strconv.Itoa(i)})
	}
	return rs
}

// List is the list of one stream.
type List struct {
	Records []Record
	Size    int         // records per page
	Total   bool        // the pages state a total
	States  int64       // total that the pages state; 0: the real total
	Numbers bool        // the records also have the member "size": their name, or a number if the name is empty
	End     extract.End // the fields Rule, Reread, Round, Parents and Gone are used; the source sets the others

	Pages func(pass int) []Record    // returns the records of each reading; nil: the field Records
	Fail  func(page int) error       // returns an error that replaces the page; may be nil
	Wait  func(context.Context, int) // called before each page; may be nil
}

// Sized gives each record the member "size". Its value is a text in the records at the given indexes, and a number in
// the other records.
func (l *List) Sized(texts ...int) {
	l.Numbers = true
	for i := range l.Records {
		l.Records[i].Name = ""
	}
	for _, i := range texts {
		l.Records[i].Name = "many"
	}
}

// Strict returns the stream with a contract that rejects records whose values have other types.
func Strict(s schemas.Stream) schemas.Stream {
	s.Rules.Contract.Types = schemas.DiscardRow
	return s
}

// Source serves lists, and counts what was read.
type Source struct {
	mu     sync.Mutex
	Lists  map[string]*List
	Passes map[string]int // number of readings, by stream
	Asked  []string       // the streams that were read, in order
	Read   int            // number of pages
}

// New returns a source with the given lists, by the names of their streams.
func New(lists map[string]*List) *Source {
	return &Source{Lists: lists, Passes: map[string]int{}}
}

func (f *Source) begin(name string) (l *List, pass int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Passes[name]++
	f.Asked = append(f.Asked, name)
	return f.Lists[name], f.Passes[name]
}

type place struct {
	Page int    `json:"page,omitempty"`
	End  string `json:"end,omitempty"`
}

// Pages implements the source of a pipeline.
func (f *Source) Pages(ctx context.Context, s schemas.Stream, from state.Cursor) iter.Seq2[extract.Page, error] {
	l, pass := f.begin(s.Name)
	var at place
	if from != "" {
		if err := json.Unmarshal([]byte(from), &at); err != nil {
			panic(err)
		}
	}
	return func(yield func(extract.Page, error) bool) {
		all := l.Records
		if l.Pages != nil {
			all = l.Pages(pass)
		}
		parts := slices.Collect(slices.Chunk(all, max(1, l.Size)))
		if len(parts) == 0 {
			parts = [][]Record{nil}
		}
		for i := at.Page; i < len(parts); i++ {
			if l.Wait != nil {
				l.Wait(ctx, i+1)
			}
			if ctx.Err() != nil {
				yield(extract.Page{}, context.Cause(ctx))
				return
			}
			if l.Fail != nil {
				if err := l.Fail(i + 1); err != nil {
					yield(extract.Page{}, err)
					return
				}
			}
			if !yield(l.page(s.Name, pass, i, parts, at.Page > 0, len(all)), nil) {
				return
			}
			f.mu.Lock()
			f.Read++
			f.mu.Unlock()
		}
	}
}

func (l *List) page(stream string, pass, i int, parts [][]Record, resumed bool, n int) extract.Page {
	body, _ := json.Marshal(append([]Record{}, parts[i]...))
	if l.Numbers {
		body = sized(parts[i])
	}
	total := int64(-1)
	if l.Total {
		total = int64(n)
	}
	if l.States > 0 {
		total = l.States
	}
	p := extract.Page{Records: body, Requests: 1, Bytes: int64(len(body)), Total: total}
	p.Next = state.Cursor(fmt.Sprintf(`{"page":%d}`, i+1))
	if i == len(parts)-1 {
		p.Next = state.Cursor(fmt.Sprintf(`{"end":"%s-%d-%d"}`, stream, pass, time.Now().UnixNano()))
		end := l.End
		if end.Rule == "" {
			end.Rule = extract.RuleLastPage
		}
		end.Pages, end.Resumed, end.FirstTotal, end.LastTotal = len(parts), resumed, total, total
		p.End, p.Gaps = &end, end.Gaps
	}
	return p
}

func sized(rs []Record) []byte {
	out := []map[string]any{}
	for _, r := range rs {
		var size any = r.ID
		if r.Name != "" {
			size = r.Name
		}
		out = append(out, map[string]any{"id": r.ID, "mail": "ann@example.test", "size": size})
	}
	body, _ := json.Marshal(out)
	return body
}

// FailingAt makes each reading of the list fail at the given page.
func FailingAt(l *List, page int) {
	l.Fail = func(p int) error {
		if p == page {
			return errors.New("connection reset")
		}
		return nil
	}
}

// Trials returns PENSTOCK_TEST_TRIALS. If it is not set, Trials returns n, or half of n in a short test.
func Trials(n int) int {
	if set, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS")); err == nil && set > 0 {
		return set
	}
	if testing.Short() {
		return (n + 1) / 2
	}
	return n
}
