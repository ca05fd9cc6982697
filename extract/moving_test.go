package extract

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type moving struct {
	mu    sync.Mutex
	ids   []int
	next  int
	kind  string // insert, delete, reorder
	rnd   *rand.Rand
	moves bool
	alive map[int]bool // records that were in the list all the time
	pager string
}

func (m *moving) move() {
	if !m.moves || len(m.ids) < 2 || m.rnd.IntN(2) == 0 {
		return
	}
	at := m.rnd.IntN(len(m.ids))
	switch m.kind {
	case "insert":
		m.ids = slices.Insert(m.ids, at, m.next)
		m.next++
	case "delete":
		delete(m.alive, m.ids[at])
		m.ids = slices.Delete(m.ids, at, at+1)
	case "reorder":
		id := m.ids[at]
		m.ids = slices.Delete(m.ids, at, at+1)
		m.ids = slices.Insert(m.ids, m.rnd.IntN(len(m.ids)+1), id)
	}
}

func (m *moving) serve(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.move()
	ids := slices.Clone(m.ids)
	from := (number(r, "page", 1) - 1) * 10
	switch m.pager {
	case "offset":
		from = number(r, "offset", 0)
	case "keyset":
		sort.Ints(ids)
		from = sort.SearchInts(ids, number(r, "starting_after", 0)+1)
	}
	var out []string
	for _, id := range ids[min(from, len(ids)):min(from+10, len(ids))] {
		out = append(out, fmt.Sprintf(`{"id":%d}`, id))
	}
	list := "[" + strings.Join(out, ",") + "]"
	switch m.pager {
	case "keyset":
		fmt.Fprintf(w, `{"data":%s,"has_more":%t}`, list, from+10 < len(ids))
	case "pages":
		items(w, list, len(ids), from/10+1, max(1, (len(ids)+9)/10))
	case "silent":
		fmt.Fprintf(w, `{"data":%s}`, list)
	default:
		fmt.Fprintf(w, `{"data":%s,"total":%d}`, list, len(ids))
	}
}

func TestMovingLists(t *testing.T) {
	s := own("x.things")
	m := &moving{}
	f := serve(t, func(w http.ResponseWriter, r *http.Request) { m.serve(w, r) }, s)
	f.parallel = 3
	var passes, short, stopped int
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(15, 80).Draw(rt, "records")
		m.mu.Lock()
		m.ids, m.next, m.moves, m.alive = nil, n+1, false, map[int]bool{}
		for i := range n {
			m.ids = append(m.ids, i+1)
			m.alive[i+1] = true
		}
		m.kind = rapid.SampledFrom([]string{"insert", "delete", "reorder"}).Draw(rt, "kind")
		m.pager = rapid.SampledFrom([]string{"pages", "offset", "keyset", "silent", "total"}).Draw(rt, "pager")
		m.rnd = rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		m.mu.Unlock()
		c, err := f.Negotiate(t.Context(), s)
		require.NoError(rt, err)
		m.mu.Lock()
		m.moves = true
		m.mu.Unlock()
		r, err := read(f.Client, c.Apply(s), "")
		passes++
		if err != nil {
			stopped++
			return
		}
		ids := map[int]int{}
		for _, raw := range r.records {
			var v struct{ ID int }
			require.NoError(rt, json.Unmarshal(raw, &v))
			ids[v.ID]++
		}
		missing := 0
		for id := range m.alive {
			if ids[id] == 0 {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		short++
		o := judgeReading(combination{}, ids, r.end)
		if m.pager == "keyset" || o.verdict == "proven" && r.end.Drift == (Drift{}) {
			rt.Fatalf("%s by %s: %d records missing, %s, %+v", m.kind, m.pager, missing, o.verdict, r.end)
		}
	})
	t.Logf("%d readings: %d lacked a record and were labelled, %d stopped", passes, short, stopped)
}
