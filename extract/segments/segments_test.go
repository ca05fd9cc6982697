package segments

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// server is a list that changes between two requests. Each record is a number, and write() returns the key of this
// number.
type server struct {
	r       *rand.Rand
	write   func(n uint64) string // called only by key()
	written map[string]uint64
	falls   bool
	records []uint64 // in the order of the list
	size    int
	says    bool  // pages say whether they are the last
	total   bool  // pages state how many records the list has
	factor  int64 // the stated total is the true total multiplied by this; 0: the stated total is true
	lie     func(s *server, key string, at int) (from int, ok bool)

	requests int
}

var (
	errRefused = errors.New("refused")
	errCut     = errors.New("connection lost")
)

func (s *server) compare(a, b uint64) int {
	if s.falls {
		return cmp.Compare(b, a)
	}
	return cmp.Compare(a, b)
}

// key returns the key of a record.
func (s *server) key(n uint64) string {
	k := s.write(n)
	if s.written == nil {
		s.written = map[string]uint64{}
	}
	s.written[k] = n
	return k
}

// after returns the page after a key. It also reports whether the page says that it is the last, and how many records
// follow, or -1 if the page does not say that.
func (s *server) after(key string) (page []string, ends bool, left int64, err error) {
	s.requests++
	at, known := 0, key == ""
	if n, ok := s.written[key]; ok {
		if at, known = slices.BinarySearchFunc(s.records, n, s.compare); known {
			at++
		}
	} else if !known {
		at = sort.Search(len(s.records), func(i int) bool { return !s.before(s.key(s.records[i]), key) })
	}
	if !known && s.lie != nil {
		from, ok := s.lie(s, key, at)
		if !ok {
			return nil, false, -1, errRefused
		}
		at = min(from, len(s.records))
	}
	to := min(at+s.size, len(s.records))
	for _, n := range s.records[at:to] {
		page = append(page, s.key(n))
	}
	if left = -1; s.total {
		left = int64(len(s.records))*max(s.factor, 1) - int64(to)
	}
	return page, s.says && to == len(s.records), left, nil
}

// before compares two keys as the server does.
func (s *server) before(a, b string) bool {
	if x, err := strconv.ParseUint(a, 10, 64); err == nil && len(a) < 20 {
		y, _ := strconv.ParseUint(b, 10, 64)
		return x < y != s.falls
	}
	return a < b != s.falls
}

// change inserts or deletes some records.
func (s *server) change(gone map[uint64]bool, most uint64) {
	for range s.r.IntN(4) {
		if s.r.IntN(2) == 0 && len(s.records) > 0 {
			i := s.r.IntN(len(s.records))
			gone[s.records[i]] = true
			s.records = slices.Delete(s.records, i, i+1)
			continue
		}
		n := s.r.Uint64N(most + most/10)
		i, found := slices.BinarySearchFunc(s.records, n, s.compare)
		if !found && !gone[n] {
			s.records = slices.Insert(s.records, i, n)
		}
	}
}

type sent struct {
	Request
	keys []string
	ends bool
	left int64
	err  error

	evaluated, answered, dropped bool
}

// pass reads a list like a client, with requests in advance. The answers arrive in any order. Some requests fail, and
// some are not sent. read() returns the keys of the records in the order in which the pass used them.
type pass struct {
	t      *testing.T
	r      *rand.Rand
	s      *server
	p      *Plan
	under  []*sent
	all    map[string]*sent
	room   int
	window int
	fails  int // one request in this many fails; 0: none
	moves  func()

	mostHeld, pages int
}

func (p *pass) fill() {
	for _, key := range p.p.Dropped() {
		require.NotNil(p.t, p.all[key])
		p.all[key].dropped = true
		delete(p.all, key)
	}
	for _, q := range p.p.Requests(p.room-len(p.under), p.room*3/5, p.window) {
		require.Nil(p.t, p.all[q.Key], "%s was requested twice", q.Key)
		one := &sent{Request: q}
		p.under, p.all[q.Key] = append(p.under, one), one
	}
	require.LessOrEqual(p.t, len(p.under), p.room)
	p.mostHeld = max(p.mostHeld, len(p.all))
}

// step lets time pass: something changes, a request reaches the server, or an answer arrives.
func (p *pass) step() {
	p.moves()
	if len(p.under) == 0 {
		return
	}
	i := p.r.IntN(len(p.under))
	one := p.under[i]
	if !one.evaluated {
		one.evaluated = true
		one.keys, one.ends, one.left, one.err = p.s.after(one.Key)
		if p.fails > 0 && p.r.IntN(p.fails) == 0 {
			one.err = errCut
		}
		return
	}
	p.under = slices.Delete(p.under, i, i+1)
	switch {
	case one.dropped:
	case one.err != nil:
		p.p.Failed(one.Key, one.err == errRefused || p.r.IntN(2) == 0)
	default:
		one.answered = true
		p.p.Answered(one.Key, one.keys, one.ends)
	}
	p.fill()
}

func (p *pass) page(key string) *sent {
	for p.p.Take(key) {
		one := p.all[key]
		require.NotNil(p.t, one)
		if one.answered {
			p.p.Used(key)
			delete(p.all, key)
			return one
		}
		p.step()
	}
	for range p.r.IntN(3) {
		p.step()
	}
	require.Nil(p.t, p.all[key])
	one := &sent{}
	one.keys, one.ends, one.left, one.err = p.s.after(key)
	return one
}

func (p *pass) read() (keys []string) {
	for key := ""; ; {
		one := p.page(key)
		require.NoError(p.t, one.err)
		p.pages++
		if len(one.keys) == 0 {
			return keys
		}
		n := p.p.Passed(one.keys, one.left, one.ends)
		require.Positive(p.t, n)
		keys = append(keys, one.keys[:n]...)
		if one.ends {
			return keys
		}
		key = one.keys[n-1]
		p.fill()
	}
}

func newPass(t *testing.T, r *rand.Rand, s *server) *pass {
	return &pass{t: t, r: r, s: s, p: New(time.Now()), all: map[string]*sent{}, room: 1 + r.IntN(40), window: 1 + r.IntN(300), moves: func() {}}
}

// drawn returns a list of random size, density and form.
func drawn(r *rand.Rand) (s *server, most uint64) {
	s = &server{r: r, size: 5 + r.IntN(30), says: r.IntN(2) == 0, falls: r.IntN(2) == 0, total: r.IntN(3) == 0}
	forms := []func(uint64) string{
		func(n uint64) string { return strconv.FormatUint(n+1, 10) },
		func(n uint64) string { return strconv.FormatUint(n*7919+1e15, 10) },
		func(n uint64) string { return fmt.Sprintf("%08x%016x", 1.7e9+n/9, n*0x9e37) },
		func(n uint64) string {
			return fmt.Sprintf("0190%04x-%04x-7%03x-8%03x-%012x", n>>19, n>>3&0xffff, n&7, n%4096, n)
		},
		func(n uint64) string { return fmt.Sprintf("01J%07d%016d", n, n*31) },
		func(n uint64) string {
			return time.UnixMilli(1.7e12 + int64(n)).UTC().Format("2006-01-02T15:04:05.000Z")
		},
	}
	s.write = forms[r.IntN(len(forms))]
	at := uint64(0)
	for range r.IntN(3000) {
		switch r.IntN(300) {
		case 0:
			at += r.Uint64N(100_000)
		default:
			at += 1 + r.Uint64N(4)
		}
		s.records = append(s.records, at)
	}
	if s.falls {
		slices.Reverse(s.records)
	}
	return s, at + 2
}

func trials(t *testing.T, usual int) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS"))
	if err != nil {
		return usual
	}
	return n
}

func seeds(t *testing.T, usual int, f func(t *testing.T, r *rand.Rand)) {
	for seed := range trials(t, usual) {
		r := rand.New(rand.NewPCG(uint64(seed), 19))
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { f(t, r) }) {
			return
		}
	}
}

func keysOf(s *server) (keys []string) {
	for _, n := range s.records {
		keys = append(keys, s.key(n))
	}
	return keys
}

// If a list does not change, each record is read once, in order.
func TestStillList(t *testing.T) {
	joined := 0
	defer func() { require.Positive(t, joined) }()
	seeds(t, 100, func(t *testing.T, r *rand.Rand) {
		s, _ := drawn(r)
		p := newPass(t, r, s)
		if r.IntN(3) == 0 {
			p.fails = 1 + r.IntN(20)
		}
		require.Equal(t, keysOf(s), p.read())
		joined += p.p.joined
		if p.fails == 0 {
			require.LessOrEqual(t, s.requests, p.pages+allowance(p))
		}
	})
}

// allowance returns how many requests are allowed in addition to one for each page, if the list has holes.
func allowance(p *pass) int { return 15 + p.pages }

// Records are inserted and deleted while the list is read. Each record that existed during the whole reading is read
// once.
func TestMovingList(t *testing.T) {
	joined := 0
	defer func() { require.Positive(t, joined) }()
	seeds(t, 250, func(t *testing.T, r *rand.Rand) {
		s, most := drawn(r)
		first, gone := keysOf(s), map[uint64]bool{}
		p := newPass(t, r, s)
		if r.IntN(4) == 0 {
			p.fails = 1 + r.IntN(20)
		}
		p.moves = func() { s.change(gone, most) }
		got := p.read()
		joined += p.p.joined
		stayed := map[string]bool{}
		for _, k := range first {
			stayed[k] = true
		}
		for n := range gone {
			delete(stayed, s.key(n))
		}
		for i, k := range got {
			require.True(t, i == 0 || s.before(got[i-1], k), "%s comes after %s", k, got[max(i, 1)-1])
			delete(stayed, k)
		}
		require.Empty(t, stayed)
	})
}

// Servers answer wrongly if no record has the requested key. Each record is still read once.
func TestUnknownKeys(t *testing.T) {
	lies := map[string]func(s *server, key string, at int) (int, bool){
		"refused":  func(*server, string, int) (int, bool) { return 0, false },
		"start":    func(*server, string, int) (int, bool) { return 0, true },
		"empty":    func(s *server, _ string, _ int) (int, bool) { return len(s.records), true },
		"skips":    func(s *server, _ string, at int) (int, bool) { return at + s.r.IntN(100), true },
		"anywhere": func(s *server, _ string, _ int) (int, bool) { return s.r.IntN(len(s.records)), true },
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			seeds(t, 30, func(t *testing.T, r *rand.Rand) {
				s, _ := drawn(r)
				s.lie = lie
				p := newPass(t, r, s)
				require.Equal(t, keysOf(s), p.read())
				require.LessOrEqual(t, s.requests, p.pages+allowance(p))
			})
		})
	}
}

// For a long list, the plan sends at most a quarter more requests than a reading of one page after another. For up to
// eight pages, it sends at most one request more, or three more if the list states a total. For one page, it sends no
// additional request.
func TestExtraRequests(t *testing.T) {
	for _, pages := range []int{1, 2, 3, 5, 8, 50, 200, 1000} {
		for i := range 8 {
			step, falls, total := uint64(1), i&2 != 0, i&4 != 0
			if i&1 != 0 {
				step = 17
			}
			t.Run(fmt.Sprint(pages, " pages, step ", step, ", falls ", falls, ", total ", total), func(t *testing.T) {
				r := rand.New(rand.NewPCG(7, 19))
				s := &server{r: r, size: 20, says: true, falls: falls, total: total, write: func(n uint64) string { return strconv.FormatUint(n+10_000_000, 10) }}
				for i := range pages * 20 {
					s.records = append(s.records, uint64(i)*step+r.Uint64N(step))
				}
				if falls {
					slices.Reverse(s.records)
				}
				p := newPass(t, r, s)
				p.room, p.window = 33, 300
				require.Equal(t, keysOf(s), p.read())
				t.Logf("%d requests, %d guesses, %d segments, at most %d pages held", s.requests, p.p.guesses, p.p.Segments(), p.mostHeld)
				extra := s.requests - pages
				switch {
				case pages == 1:
					require.Zero(t, extra)
				case pages <= 8 && total:
					require.LessOrEqual(t, extra, 3)
				case pages <= 8:
					require.LessOrEqual(t, extra, 1)
				}
				require.LessOrEqual(t, extra, 8+pages/4)
			})
		}
	}
}

// A total may be too large: it may count all records although the list is filtered. Because of such a total, the pass
// guesses keys beyond the end of the list. It must send only a few such requests.
func TestTooLargeTotal(t *testing.T) {
	for _, factor := range []int64{2, 10, 1000} {
		t.Run(fmt.Sprint(factor), func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 19))
			s := &server{r: r, size: 20, says: true, total: true, factor: factor, write: func(n uint64) string { return strconv.FormatUint(n+1, 10) }}
			for i := range 10 * 20 {
				s.records = append(s.records, uint64(i)*17+r.Uint64N(17))
			}
			p := newPass(t, r, s)
			p.room, p.window = 33, 300
			require.Equal(t, keysOf(s), p.read())
			t.Logf("%d requests", s.requests)
			require.LessOrEqual(t, s.requests, 10+mostLost)
		})
	}
}

// mostLost is how many useless requests a wrong total may cause, in a list of ten pages.
const mostLost = 25
