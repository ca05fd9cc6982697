package extract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

type family struct {
	*fixture
	parent, child schemas.Stream

	mu     sync.Mutex
	n      int
	absent map[string]bool // ids for which the server answers 404
	broken string          // id for which the server answers 500
	bait,
	parentRefused,
	child403 bool
	requests map[string]int
}

func newFamily(t *testing.T, n int) *family {
	f := &family{n: n, absent: map[string]bool{}, requests: map[string]int{}}
	f.parent = list("x.parents", "id")
	f.child = list("x.child", "id")
	f.child.Class, f.child.Parent, f.child.Path = schemas.ClassDetail, "x.parents", "/api/child/{id}"
	f.child.Params = []schemas.Param{{Name: "id", In: "path", From: "/id"}}
	f.fixture = serve(t, f.answer, f.parent, f.child)
	return f
}

func (f *family) answer(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests[r.URL.Path]++
	id, child := strings.CutPrefix(r.URL.Path, "/api/child/")
	switch {
	case !child && f.parentRefused:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"message":"This action is unauthorized."}`)
	case !child && f.bait:
		fmt.Fprintf(w, `{"success":true,"data":{"items":[{"id":7},{"id":8}],"things":%s}}`, rows(0, f.n, f.n))
	case !child:
		p := number(r, "page", 1)
		items(w, rows((p-1)*10, p*10, f.n), f.n, p, (f.n+9)/10)
	case f.child403:
		fmt.Fprint(w, `{"status":0,"message":"Permission denied"}`)
	case f.broken == id:
		fmt.Fprint(w, `{"status":0,"message":"Something went wrong"}`)
	case f.absent[id]:
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"success":false,"message":"Thing Not Found","errors":404}`)
	default:
		fmt.Fprintf(w, `{"success":true,"data":{"id":%s,"more":"m"}}`, id)
	}
}

func TestFanOut(t *testing.T) {
	f := newFamily(t, 57)
	f.absent["7"], f.absent["57"] = true, true
	var wg sync.WaitGroup
	var child reading
	var childErr error
	wg.Go(func() { child, childErr = read(f.Client, f.child, "") }) // waits for its parent
	parent, err := read(f.Client, f.parent, "")
	wg.Wait()
	require.NoError(t, err)
	require.NoError(t, childErr)
	require.Equal(t, wanted(57), parent.ids())
	require.Equal(t, strings.Replace(wanted(56), "6,7,8", "6,8", 1), child.ids())
	require.Equal(t, 6, f.requests["/api/x/parents"], "the parent is read once")
	require.Equal(t, RuleParents, child.end.Rule)
	require.Equal(t, 57, child.end.Parents)
	require.Equal(t, 2, child.end.Gone)
	require.JSONEq(t, `{"id":1,"more":"m","_context":{"id":1}}`, string(child.records[0]))
}

func TestFanOutWithoutParentsPass(t *testing.T) {
	f := newFamily(t, 12)
	c, err := New(Config{App: f.cfg.App, Selected: []schemas.Stream{f.child}, Find: func(string) (schemas.Stream, bool) { return f.parent, true }})
	require.NoError(t, err)
	defer c.Close()
	r, err := read(c, f.child, "")
	require.NoError(t, err)
	require.Equal(t, wanted(12), r.ids())
	r, err = read(c, f.child, "")
	require.NoError(t, err)
	require.Equal(t, wanted(12), r.ids())
	require.Equal(t, 2, f.requests["/api/x/parents"])

	_, err = New(Config{App: f.cfg.App, Selected: []schemas.Stream{f.child}})
	require.ErrorContains(t, err, "no parent x.parents")
}

func TestFanOutSettledParent(t *testing.T) {
	f := newFamily(t, 12)
	knowing := func(place string) *Client {
		c, err := New(Config{App: f.cfg.App, Selected: []schemas.Stream{f.child}, Find: func(string) (schemas.Stream, bool) { return f.parent, true }})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		c.Settle(func(s schemas.Stream) schemas.Stream {
			require.Equal(t, f.parent.Name, s.Name)
			return Convention{Located: true, Records: place}.Apply(s)
		})
		return c
	}
	f.bait = true
	r, err := read(knowing("/data/things"), f.child, "")
	require.NoError(t, err)
	require.Equal(t, wanted(12), r.ids())
	f.bait = false
	r, err = read(knowing("/gone"), f.child, "")
	require.NoError(t, err)
	require.Equal(t, wanted(12), r.ids())
}

func TestFanOutLastPassCounts(t *testing.T) {
	f := newFamily(t, 12)
	for _, n := range []int{12, 15, 3} {
		f.n = n
		_, err := read(f.Client, f.parent, "")
		require.NoError(t, err)
		r, err := read(f.Client, f.child, "")
		require.NoError(t, err)
		require.Equal(t, wanted(n), r.ids())
	}
	f.parentRefused = true
	_, err := read(f.Client, f.parent, "")
	require.Error(t, err)
	r, err := read(f.Client, f.child, "")
	require.NoError(t, err)
	require.Equal(t, wanted(3), r.ids())
}

func TestFanOutParentPassStopsEarly(t *testing.T) {
	f := newFamily(t, 30)
	for range f.Pages(context.Background(), f.parent, "") {
		break
	}
	r, err := read(f.Client, f.child, "")
	require.NoError(t, err)
	require.Equal(t, wanted(30), r.ids())
}

func TestFanOutParentResumed(t *testing.T) {
	f := newFamily(t, 30)
	first, err := read(f.Client, f.parent, "")
	require.NoError(t, err)
	again := newFamily(t, 30)
	_, err = read(again.Client, again.parent, first.cursors[0])
	require.NoError(t, err)
	r, err := read(again.Client, again.child, "")
	require.NoError(t, err)
	require.Equal(t, wanted(30), r.ids())
}

func TestFanOutParentFails(t *testing.T) {
	f := newFamily(t, 30)
	f.parentRefused = true
	_, err := read(f.Client, f.parent, "")
	classIs(t, err, wire.NotEntitled)
	_, err = read(f.Client, f.child, "")
	classIs(t, err, wire.NotEntitled)
	p, ok := errors.AsType[*ParentError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "x.parents", p.Parent)
}

func TestFanOutNotEntitled(t *testing.T) {
	f := newFamily(t, 30)
	f.child403 = true
	_, err := read(f.Client, f.parent, "")
	require.NoError(t, err)
	_, err = read(f.Client, f.child, "")
	classIs(t, err, wire.NotEntitled)
}

func TestFanOutAllMissing(t *testing.T) {
	f := newFamily(t, 9)
	for i := range 9 {
		f.absent[fmt.Sprint(i+1)] = true
	}
	_, err := read(f.Client, f.parent, "")
	require.NoError(t, err)
	_, err = read(f.Client, f.child, "")
	classIs(t, err, wire.Missing)
}

func TestFanOutResumes(t *testing.T) {
	f := newFamily(t, 450)
	_, err := read(f.Client, f.parent, "")
	require.NoError(t, err)
	whole, err := read(f.Client, f.child, "")
	require.NoError(t, err)
	require.GreaterOrEqual(t, whole.pages, 3)

	for i, from := range whole.cursors[:len(whole.cursors)-1] {
		clear(f.requests)
		r, err := read(f.Client, f.child, from)
		require.NoError(t, err)
		require.True(t, r.end.Resumed)
		require.Equal(t, 450, r.end.Parents)
		require.True(t, strings.HasSuffix(whole.ids(), r.ids()))
		require.Less(t, len(r.records), 450-100*i)
	}

	g := newFamily(t, 450)
	g.absent["1"] = true
	shifted := g.parent
	shifted.Path = "/api/x/parents"
	_, err = read(g.Client, shifted, "")
	require.NoError(t, err)
	cut := whole.cursors[0]
	broken := strings.Replace(string(cut), `"tuples":"`, `"tuples":"f`, 1)
	r, err := read(g.Client, g.child, state.Cursor(broken))
	require.NoError(t, err)
	require.False(t, r.end.Resumed)
	require.Len(t, r.records, 449)
	require.Contains(t, r.end.Note, "started again")
}

func TestFanOutOfLists(t *testing.T) {
	parent := list("x.boards", "id")
	child := list("x.cards", "id")
	child.Parent, child.Method, child.Path = "x.boards", "POST", "/api/cards"
	child.Params = []schemas.Param{
		{Name: "board_id", In: "body", From: "/id"},
		{Name: "stage", In: "body", From: "/stages/*/name"},
		{Name: "owner", In: "body", From: "/owner"},
		{Name: "type", In: "body", Value: "all"},
	}
	child.Pagination = schemas.Pagination{Size: "per_page", Limit: 2}
	var bodies []string
	var mu sync.Mutex
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"data":[{"id":1,"stages":[{"name":"a"},{"name":"b\"é"}],"owner":null},{"id":2,"stages":[]},{"id":3,"stages":[{"name":"a"},{"name":"a"}],"owner":"o"}]}`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		bodies = append(bodies, string(body))
		mu.Unlock()
		if strings.Contains(string(body), "penstock-none") {
			items(w, "[]", 0, 1, 1)
			return
		}
		page := 1
		fmt.Sscanf(string(body[strings.Index(string(body), `"page":`)+7:]), "%d", &page)
		if !strings.Contains(string(body), `"page":`) {
			page = 1
		}
		items(w, rows((page-1)*2, page*2, 5), 5, page, 3)
	}, parent, child)
	_, err := read(c.Client, parent, "")
	require.NoError(t, err)
	r, err := read(c.Client, child, "")
	require.NoError(t, err)
	require.Equal(t, "1,2,3,4,5,1,2,3,4,5,1,2,3,4,5,1,2,3,4,5", r.ids())
	require.JSONEq(t, `{"id":1,"name":"r1","_context":{"board_id":1,"stage":"a"}}`, string(r.records[0]))
	require.JSONEq(t, `{"id":1,"name":"r1","_context":{"board_id":1,"stage":"b\"é"}}`, string(r.records[5]))
	require.JSONEq(t, `{"id":5,"name":"r5","_context":{"board_id":3,"stage":"a","owner":"o"}}`, string(r.records[19]))
	require.Contains(t, bodies, `{"board_id":3,"owner":"o","page":3,"per_page":2,"stage":"a","type":"all"}`)
}

func TestFanOutOfShortLists(t *testing.T) {
	parent := list("x.boards", "id")
	child := list("x.cards", "id")
	child.Parent, child.Path = "x.boards", "/api/cards/{id}"
	child.Params = []schemas.Param{{Name: "id", In: "path", From: "/id"}}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/cards/1":
			items(w, rows(0, 5, 5), 9, 1, 1)
		case "/api/cards/2":
			p := number(r, "page", 1)
			items(w, rows((p-1)*10, p*10, 20), 20+p, p, 2)
		case "/api/cards/3":
			fmt.Fprintf(w, `{"data":{"items":%s}}`, rows(0, 50, 50))
		case "/api/cards/4":
			fmt.Fprintf(w, `{"data":{"items":%s}}`, rows(0, 20, 20))
		case "/api/cards/5":
			items(w, rows(0, 5, 5), 5, 1, 1)
		default:
			fmt.Fprint(w, `{"data":[{"id":1},{"id":2},{"id":3},{"id":4},{"id":5}]}`)
		}
	}, parent, child)
	_, err := read(c.Client, parent, "")
	require.NoError(t, err)
	r, err := read(c.Client, child, "")
	require.NoError(t, err)
	require.Equal(t, 5, r.end.Parents)
	require.Equal(t, 3, r.end.Short)
}

func TestSpool(t *testing.T) {
	dir := t.TempDir()
	s := newParamSpool(dir, []schemas.Param{{Name: "id", In: "path", From: "/id"}}, schemas.Stream{})
	const n = 80_000
	d := new(jsondoc.Doc)
	for i := range n {
		for range 1 + i%2 {
			require.NoError(t, d.Scan(fmt.Appendf(nil, `{"id":"con_%06d"}`, i)))
			require.NoError(t, s.add(d, d.Root()))
		}
	}
	require.Len(t, s.prints, n)
	require.NoError(t, s.seal())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
	for range 2 {
		i := 0
		for got, err := range s.tuples() {
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf(`["con_%06d"]`, i), string(got.line))
			i++
		}
		require.Equal(t, n, i)
	}
	require.NoError(t, s.close())
	files, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, files)
}

func TestFanOutContextEnds(t *testing.T) {
	f := newFamily(t, 3)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	for _, err := range f.Pages(ctx, f.child, "") {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

func TestFanOutParentEnded(t *testing.T) {
	for _, refused := range []bool{true, false} {
		f := newFamily(t, 12)
		f.parentRefused = refused
		_, err := f.Negotiate(t.Context(), f.parent)
		require.Equal(t, refused, err != nil)
		f.NoMorePasses(f.parent.Name)
		records, err := f.beforePatienceEnds(t)
		require.Equal(t, refused, err != nil, "%v", err)
		if refused {
			_, ok := errors.AsType[*ParentError](err)
			require.True(t, ok, "%v", err)
			classIs(t, err, wire.NotEntitled)
			continue
		}
		require.Equal(t, 12, records)
	}
}

func TestFanOutPanicInParentPass(t *testing.T) {
	f := newFamily(t, 12)
	require.Panics(t, func() {
		for range f.Pages(t.Context(), f.parent, "") {
			panic("an unexpected record")
		}
	})
	records, err := f.beforePatienceEnds(t)
	require.NoError(t, err)
	require.Equal(t, 12, records)
}

func (f *family) beforePatienceEnds(t *testing.T) (records int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), parentWait*2/3)
	defer cancel()
	for page, err := range f.Pages(ctx, f.child, "") {
		if err != nil {
			return records, err
		}
		var some []json.RawMessage
		require.NoError(t, json.Unmarshal(page.Records, &some))
		records += len(some)
	}
	return records, nil
}

func TestFanOutPartialParentPass(t *testing.T) {
	for name, end := range map[string]End{"changes only": {Partial: true}, "some parents": {Skipped: 1}, "all": {}} {
		f := newFamily(t, 12)
		feed := f.fedBy("x.parents")
		pages := func(yield func(Page, error) bool) { yield(Page{Records: []byte(`[{"id":1}]`), End: &end}, nil) }
		for range feed.tap(t.Context(), pages, false) {
		}
		require.Equal(t, name == "all", feed.ready != nil, name)
	}
}
