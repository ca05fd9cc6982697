package pipeline

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
	"time"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func stream(name string) schemas.Stream {
	return schemas.Stream{
		Table: schemas.Table{Name: name, Key: []string{"id"}},
		Name:  name, Surface: schemas.SurfaceApp, Class: schemas.ClassList,
	}
}

func keyless(name string) schemas.Stream {
	s := stream(name)
	s.Key = nil
	return s
}

type record struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

// MarshalJSON writes a negative id as null, so that no table can store the record.
func (r record) MarshalJSON() ([]byte, error) {
	id := strconv.Itoa(r.ID)
	if r.ID < 0 {
		id = "null"
	}
	return fmt.Appendf(nil, `{"id":%s,"name":%q}`, id, r.Name), nil
}

func records(from, to int) []record {
	var rs []record
	for i := from; i < to; i++ {
		rs = append(rs, record{i, "n" + strconv.Itoa(i)})
	}
	return rs
}

type list struct {
	records []record
	size    int
	total   bool
	states  int64       // total that the pages state; 0: the real total
	numbers bool        // the records have a member size: the name, or a number if the name is empty
	end     extract.End // the fields Rule, Reread, Round, Parents and Gone are used; the source sets the others

	pages func(pass int) []record // returns the records of each reading; nil: the field records
	fail  func(page int) error
	wait  func(context.Context, int)
}

type fakeSource struct {
	mu     sync.Mutex
	lists  map[string]*list
	passes map[string]int
	asked  []string
	pages  int
}

func newSource(lists map[string]*list) *fakeSource {
	return &fakeSource{lists: lists, passes: map[string]int{}}
}

func (f *fakeSource) begin(name string) (l *list, pass int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passes[name]++
	f.asked = append(f.asked, name)
	return f.lists[name], f.passes[name]
}

type place struct {
	Page int    `json:"page,omitempty"`
	End  string `json:"end,omitempty"`
}

func (f *fakeSource) Pages(ctx context.Context, s schemas.Stream, from state.Cursor) iter.Seq2[extract.Page, error] {
	l, pass := f.begin(s.Name)
	var at place
	if from != "" {
		if err := json.Unmarshal([]byte(from), &at); err != nil {
			panic(err)
		}
	}
	return func(yield func(extract.Page, error) bool) {
		all := l.records
		if l.pages != nil {
			all = l.pages(pass)
		}
		parts := slices.Collect(slices.Chunk(all, max(1, l.size)))
		if len(parts) == 0 {
			parts = [][]record{nil}
		}
		for i := at.Page; i < len(parts); i++ {
			if l.wait != nil {
				l.wait(ctx, i+1)
			}
			if ctx.Err() != nil {
				yield(extract.Page{}, context.Cause(ctx))
				return
			}
			if l.fail != nil {
				if err := l.fail(i + 1); err != nil {
					yield(extract.Page{}, err)
					return
				}
			}
			if !yield(l.page(s.Name, pass, i, parts, at.Page > 0, len(all)), nil) {
				return
			}
			f.mu.Lock()
			f.pages++
			f.mu.Unlock()
		}
	}
}

func (l *list) page(stream string, pass, i int, parts [][]record, resumed bool, n int) extract.Page {
	body, _ := json.Marshal(append([]record{}, parts[i]...))
	if l.numbers {
		body = sized(parts[i])
	}
	total := int64(-1)
	if l.total {
		total = int64(n)
	}
	if l.states > 0 {
		total = l.states
	}
	p := extract.Page{Records: body, Requests: 1, Bytes: int64(len(body)), Total: total}
	p.Next = state.Cursor(fmt.Sprintf(`{"page":%d}`, i+1))
	if i == len(parts)-1 {
		p.Next = state.Cursor(fmt.Sprintf(`{"end":"%s-%d-%d"}`, stream, pass, time.Now().UnixNano()))
		end := l.end
		if end.Rule == "" {
			end.Rule = extract.RuleLastPage
		}
		end.Pages, end.Resumed, end.FirstTotal, end.LastTotal = len(parts), resumed, total, total
		p.End, p.Gaps = &end, end.Gaps
	}
	return p
}

func sized(rs []record) []byte {
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

func failingAt(l *list, page int) {
	l.fail = func(p int) error {
		if p == page {
			return errors.New("connection reset")
		}
		return nil
	}
}

func trials(short int) int {
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS")); err == nil && n > 0 {
		return n
	}
	return short
}
