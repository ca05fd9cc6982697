package extract

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// keyed is a list that is sorted by id. Each page is requested with the id of the record before it: starting_after=17.
type keyed struct {
	mu    sync.Mutex
	ids   []int
	falls bool
	bare  bool                                     // no page says whether it is the last
	total bool                                     // pages state the number of records
	count bool                                     // pages state the number of their records
	hex   bool                                     // ids are written in hex, like the ids of MongoDB
	fails func(w http.ResponseWriter, id int) bool // if it returns true, it has sent the answer

	change func(k *keyed) // called before each answer
}

func (k *keyed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.change != nil {
		k.change(k)
	}
	size, at := min(number(r, "limit", 10), 100), 0
	if text := r.URL.Query().Get("starting_after"); text != "" {
		id := k.parse(text)
		at = sort.Search(len(k.ids), func(i int) bool { return k.ids[i] > id && !k.falls || k.ids[i] < id && k.falls })
		if k.fails != nil && k.fails(w, id) {
			return
		}
	}
	page := k.ids[at:min(at+size, len(k.ids))]
	records := []map[string]any{}
	for _, id := range page {
		records = append(records, map[string]any{"id": k.text(id), "name": fmt.Sprint("record ", id)})
	}
	body := map[string]any{"data": records}
	if !k.bare {
		body["has_more"] = at+len(page) < len(k.ids)
	}
	if k.count {
		body["count"] = len(page)
	}
	if k.total {
		body["total"] = len(k.ids)
	}
	_ = json.NewEncoder(w).Encode(body)
}

// addWithin adds a record, at a percentage of the way from the first id to the last. It returns the record's id. The
// new record is never before the first record, because a resumed pass would then begin again.
func (k *keyed) addWithin(percent int) (id int) {
	id = k.ids[0] + (k.ids[len(k.ids)-1]-k.ids[0])/100*percent
	at := sort.Search(len(k.ids), func(i int) bool { return k.ids[i] >= id && !k.falls || k.ids[i] <= id && k.falls })
	if at == len(k.ids) || k.ids[at] != id {
		k.ids = slices.Insert(k.ids, at, id)
	}
	return id
}

func (k *keyed) text(id int) any {
	if k.hex {
		return fmt.Sprintf("%015x%09x", id, id%7)
	}
	return id
}

func (k *keyed) parse(text string) int {
	if k.hex {
		id, _ := strconv.ParseInt(text[:15], 16, 64)
		return int(id)
	}
	id, _ := strconv.Atoi(text)
	return id
}

func keyedStream() schemas.Stream {
	s := list("x.things", "id")
	s.RecordsKnown, s.Records = true, []string{"/data"}
	s.Pagination = schemas.Pagination{Type: "since_id", Page: "starting_after", Size: "limit", Limit: 100}
	return s
}

func idsFrom(n, step int, r *rand.Rand) (ids []int) {
	id := 1000
	for range n {
		id += 1 + r.IntN(step)
		ids = append(ids, id)
	}
	return ids
}

// readKeyed reads a list from a cursor. It stops after the given number of pages. If stop is 0, it reads to the end.
func readKeyed(t *testing.T, c *Client, from state.Cursor, stop int) (ids []int, next state.Cursor, end *End, requests int) {
	t.Helper()
	pages := 0
	for p, err := range c.Pages(context.Background(), keyedStream(), from) {
		require.NoError(t, err)
		var rows []struct{ Name string }
		require.NoError(t, json.Unmarshal(p.Records, &rows))
		for _, row := range rows {
			id, err := strconv.Atoi(strings.TrimPrefix(row.Name, "record "))
			require.NoError(t, err)
			ids = append(ids, id)
		}
		next, end, requests = p.Next, p.End, requests+p.Requests
		if pages++; pages == stop {
			break
		}
	}
	return ids, next, end, requests
}

// The server of a list of 20,000 records is 200 ms away, and allows 100 requests a second. A list that is paged by ids
// takes at most 1.45 times as long to read as a list that is paged by number. If nothing shows where the list ends, it
// takes at most 1.65 times as long. One page after another would take 16 times as long.
//
// The order of concurrent requests is random, so the times of two runs differ by up to a tenth. With page numbers, the
// list takes 2.4 s. With ids, it takes at least 2.9 s if the first page shows where the list ends:
//   - The first page takes 0.2 s. After that, the rate limit allows one request every 10 ms.
//   - To use this rate, 20 segments must be read at the same time. Each begins with a guess. About half of the last
//     page of a segment is also on the first page of the next segment. So about 230 requests are needed for the 200
//     pages. If the ids have no gaps, about 205 are enough, because each guess is then the exact beginning of a page.
//   - The last answers take 0.2 s, and so does the end of the list, which is requested after them.
//
// If nothing shows where the list ends, the list takes at least 3.3 s. One key is guessed after the second page, and
// the other keys after the answer to this guess. A guess may find no records, and lists of a few pages must not pay for
// many guesses.
func TestKeysAgainstPages(t *testing.T) {
	took := func(page http.HandlerFunc, s schemas.Stream) (time.Duration, *farServer) {
		server := &farServer{limit: 100, latency: 200 * time.Millisecond, page: page}
		var took time.Duration
		far(t, server, []schemas.Stream{s}, func(c *Client) {
			begin := time.Now()
			readAll(t, c, []schemas.Stream{s})
			took = time.Since(begin)
		})
		require.Zero(t, server.refused, "429s")
		return took, server
	}
	byPage, _ := took(func(w http.ResponseWriter, r *http.Request) {
		p := number(r, "page", 1)
		items(w, rows((p-1)*100, p*100, 20_000), 20_000, p, 200)
	}, list("x.things", "id"))
	for name, k := range map[string]*keyed{
		"dense":                              {},
		"sparse":                             {},
		"newest first":                       {falls: true},
		"no flag":                            {bare: true},
		"with total":                         {total: true},
		"large ids, newest first":            {falls: true},
		"large ids, newest first with total": {falls: true, total: true},
	} {
		t.Run(name, func(t *testing.T) {
			step, most := 1000, 1.45
			switch {
			case name == "dense":
				step = 1
			case !k.total: // nothing shows where the list ends: see above
				most = 1.65
			}
			if k.ids = idsFrom(20_000, step, rand.New(rand.NewPCG(1, 19))); strings.HasPrefix(name, "large") {
				for i := range k.ids {
					k.ids[i] += 1_700_000_000_000_000
				}
			}
			if k.falls {
				slices.Reverse(k.ids)
			}
			byKey, server := took(k.ServeHTTP, keyedStream())
			t.Logf("%s: by page %s, by key %s: %.2f times; %d requests", name, byPage, byKey, byKey.Seconds()/byPage.Seconds(), len(server.requests))
			require.LessOrEqual(t, byKey.Seconds(), most*byPage.Seconds())
			require.LessOrEqual(t, len(server.requests), 270)
		})
	}
}

// A list whose records and paging are configured is read in segments too.
func TestConfiguredKeys(t *testing.T) {
	k := &keyed{ids: idsFrom(5000, 3, rand.New(rand.NewPCG(1, 19)))}
	s := keyedStream()
	s.RecordsKnown = false
	s.Stated = map[string]string{"records": schemas.StatedConfigured, "pagination": schemas.StatedConfigured, "path": schemas.StatedConfigured}
	server := &farServer{limit: 100, latency: 200 * time.Millisecond, page: k.ServeHTTP}
	far(t, server, []schemas.Stream{s}, func(c *Client) {
		var note string
		for p, err := range c.Pages(context.Background(), s, "") {
			require.NoError(t, err)
			if p.End != nil {
				note = p.End.Note
			}
		}
		require.Contains(t, note, "segments at the same time")
	})
}

// If answers come fast, a list is read one page after another.
func TestNearKeys(t *testing.T) {
	k := &keyed{ids: idsFrom(5000, 3, rand.New(rand.NewPCG(1, 19)))}
	server := &farServer{limit: 100, latency: 10 * time.Millisecond, page: k.ServeHTTP}
	far(t, server, []schemas.Stream{keyedStream()}, func(c *Client) {
		ids, _, end, requests := readKeyed(t, c, "", 0)
		require.Equal(t, k.ids, ids)
		require.Equal(t, 50, requests)
		require.Empty(t, end.Note)
	})
}

// A list states its total, and no page says whether it is the last. During the pass, records that were already read are
// deleted. So the number of records that the pass has read reaches the total before the list ends. Still, the pass
// reads the last records too.
func TestTotalOfShrinkingList(t *testing.T) {
	k := &keyed{ids: idsFrom(1000, 3, rand.New(rand.NewPCG(1, 19))), bare: true, total: true}
	all, answers := slices.Clone(k.ids), 0
	k.change = func(k *keyed) {
		if answers++; answers == 6 {
			k.ids = k.ids[100:]
		}
	}
	server := &farServer{limit: 100, latency: 10 * time.Millisecond, page: k.ServeHTTP}
	far(t, server, []schemas.Stream{keyedStream()}, func(c *Client) {
		ids, _, _, _ := readKeyed(t, c, "", 0)
		require.Equal(t, all, ids)
	})
}

func segmentTrials(t *testing.T, usual int) int {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS")); err == nil {
		return n
	}
	return usual
}

// A list changes while it is read in segments, the pass is interrupted and resumed, and the server fails. Each record
// that existed all the time is read once, in order. If the list does not change, every record is read.
func TestSegmentsOfMovingList(t *testing.T) {
	divided := 0
	for seed := range segmentTrials(t, 20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 19))
			k := &keyed{ids: idsFrom(1500+r.IntN(6000), 1+r.IntN(30), r), falls: r.IntN(2) == 0, bare: r.IntN(2) == 0, total: r.IntN(3) == 0,
				count: r.IntN(2) == 0, hex: r.IntN(2) == 0}
			if k.falls {
				slices.Reverse(k.ids)
			}
			first, gone, still := slices.Clone(k.ids), map[int]bool{}, r.IntN(3) == 0
			known := make(map[int]bool)
			for _, id := range k.ids {
				known[id] = true
			}
			k.change = func(k *keyed) {
				if still {
					return
				}
				for range r.IntN(3) {
					i := r.IntN(len(k.ids))
					gone[k.ids[i]] = true
					k.ids = slices.Delete(k.ids, i, i+1)
				}
				for range r.IntN(3) {
					known[k.addWithin(r.IntN(100))] = true
				}
			}
			k.fails = drawnFault(r, known)
			server := &farServer{limit: 200, latency: time.Duration(100+r.IntN(200)) * time.Millisecond, page: k.ServeHTTP}
			var got []int
			far(t, server, []schemas.Stream{keyedStream()}, func(c *Client) {
				stop := r.IntN(2) * r.IntN(40)
				ids, next, end, _ := readKeyed(t, c, "", stop)
				if got = ids; end == nil {
					ids, _, end, _ = readKeyed(t, c, next, 0)
					got = append(got, ids...)
				}
				require.NotNil(t, end)
				require.Zero(t, end.Drift.Overlap)
				if end.Note != "" {
					divided++
				}
			})
			require.Zero(t, server.refused, "429s")
			if still {
				require.Equal(t, first, got)
			}
			seen := map[int]bool{}
			for i, id := range got {
				require.False(t, seen[id], "%d was read twice", id)
				require.True(t, i == 0 || got[i-1] < id != k.falls)
				seen[id] = true
			}
			for _, id := range first {
				require.True(t, seen[id] || gone[id], "%d was not read", id)
			}
		})
	}
	require.Positive(t, divided)
}

// drawnFault returns what the server does with ids that no record has ever had. If the server also failed for ids of
// deleted records, a reading of one page after another would fail too.
func drawnFault(r *rand.Rand, known map[int]bool) func(w http.ResponseWriter, id int) bool {
	status := []int{0, 0, 0, 400, 404, 500, 200}[r.IntN(7)]
	return func(w http.ResponseWriter, id int) bool {
		if known[id] || status == 0 {
			return false
		}
		w.WriteHeader(status)
		fmt.Fprint(w, `{"data":[],"has_more":false}`)
		return true
	}
}
