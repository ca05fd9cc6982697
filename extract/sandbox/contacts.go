package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// contacts are the records for benchmarks. Up to 100,000 distinct records are rendered once. A page copies their bytes,
// and replaces the id and a counter of changes, which both have a fixed width.
type contacts struct {
	count   int
	records []byte
	ends    []int // end of each distinct record in records

	mu      sync.RWMutex
	changes []uint16 // number of changes of each contact
	buffers sync.Pool
}

const (
	distinctContacts = 100_000
	firstContact     = 1_000_000_001 // ids have ten digits
	maxContactPage   = 1000

	idAt     = len(`{"id":`)
	idWidth  = 10
	scoreAt  = idAt + idWidth + len(`,"score":`)
	minScore = 10_000 // scores have five digits
	scores   = 90_000
)

func newContacts(seed uint64, count int) *contacts {
	g := newGen(&world{tables: map[string]*table{}}, seed, "scale_contacts")
	c := &contacts{count: count, changes: make([]uint16, count)}
	n := min(count, distinctContacts)
	c.records = make([]byte, 0, n*720)
	for i := range n {
		c.records = utf8Style.append(c.records, g.contact(i))
		c.ends = append(c.ends, len(c.records))
	}
	c.buffers.New = func() any { return new(bytes.Buffer) }
	return c
}

func (g *gen) contact(i int) object {
	name := g.name()
	stamp := epoch.Add(-time.Duration(i) * time.Minute)
	phones := list{}
	for k := range 2 {
		phones = append(phones, obj("type", g.pick("cell", "desk"), "no", fmt.Sprintf("+%07d", g.IntN(10_000_000)), "main", k == 0,
			"ext", g.IntN(900), "sms", g.flag()))
	}
	return obj("id", firstContact, "score", minScore+g.IntN(scores), "object", "contact", "account_id", "acc_"+g.suffix(8), "owner_id", "usr_"+g.suffix(8),
		"name", name, "company", g.pick(companyWords...)+" AB", "email", fmt.Sprintf("c%06d@mail.test", i), "title", g.null(3, g.pick(subjects...)), "status", g.pick("active", "lead", "closed"),
		"balance", g.money(0, 99999), "limit", g.money(100, 9000), "visits", g.IntN(5000), "logins", g.IntN(900), "is_active", g.chance(2),
		"subscribed", g.chance(3), "created_at", stamp.Format(time.RFC3339), "updated_at", stamp.Add(time.Hour).Format(time.RFC3339),
		"created", int(stamp.Unix()), "last_seen", g.null(7, int(stamp.Unix())+g.IntN(9000)),
		"address", obj("street", g.pick(streets...)+" "+strconv.Itoa(g.IntN(200)), "city", g.pick(cities...), "zip", fmt.Sprintf("%05d", g.IntN(100000)), "country", g.pick(countries...)),
		"tags", list{g.pick("vip", "newsletter"), g.pick("north", "süd"), g.pick("a", "b")}, "phones", phones, "fax", nil, "notes", g.null(2, g.sentence()))
}

func (c *contacts) record(dst []byte, i int) []byte {
	d := i % len(c.ends)
	start := 0
	if d > 0 {
		start = c.ends[d-1]
	}
	at := len(dst)
	dst = append(dst, c.records[start:c.ends[d]]...)
	patch(dst[at+idAt:at+idAt+idWidth], firstContact+i)
	if n := int(c.changes[i]); n > 0 {
		was, _ := strconv.Atoi(string(dst[at+scoreAt : at+scoreAt+5]))
		patch(dst[at+scoreAt:at+scoreAt+5], minScore+(was-minScore+n)%scores)
	}
	return dst
}

func patch(digits []byte, n int) {
	for k := len(digits) - 1; k >= 0; k-- {
		digits[k] = byte('0' + n%10)
		n /= 10
	}
}

func (c *contacts) list(p params) reply {
	size, start := 10, 0
	if text, ok := p["limit"]; ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return dV2.fail(&refusal{kind: invalid, fields: []string{"limit"}})
		}
		size = min(n, maxContactPage)
	}
	if text, ok := p["starting_after"]; ok {
		id, err := strconv.Atoi(text)
		if err != nil || id < firstContact || id >= firstContact+c.count {
			return dV2.fail(&refusal{kind: missing, what: "contact: " + text})
		}
		start = id - firstContact + 1
	}
	buffer, _ := c.buffers.Get().(*bytes.Buffer)
	buffer.Reset()
	buffer.Grow(size*720 + 256)
	end := min(start+size, c.count)
	body := append(buffer.AvailableBuffer(), `{"object":"list","url":"/v2/contacts","data":[`...)
	c.mu.RLock()
	for i := start; i < end; i++ {
		if i > start {
			body = append(body, ',')
		}
		body = c.record(body, i)
	}
	c.mu.RUnlock()
	body = append(strconv.AppendBool(append(body, `],"has_more":`...), end < c.count), '}')
	return reply{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}, body: body, release: func() {
		c.buffers.Put(bytes.NewBuffer(body[:0]))
	}}
}

func (c *contacts) one(id string) reply {
	n, err := strconv.Atoi(id)
	if err != nil || n < firstContact || n >= firstContact+c.count {
		return dV2.fail(&refusal{kind: missing, what: "contact"})
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return reply{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}, body: c.record(nil, n-firstContact)}
}

func (c *contacts) touch(fraction float64, random *rand.Rand, tell func(number int)) int {
	touched := 0
	for i := range c.changes {
		if random.Float64() < fraction {
			c.change(i)
			tell(i)
			touched++
		}
	}
	return touched
}

func (c *contacts) change(number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes[number]++
}

func (c *contacts) truth() ([]json.RawMessage, error) {
	if c.count > 2*distinctContacts {
		return nil, fmt.Errorf("%d contacts are too many to hold in memory: see WriteContactsNDJSON", c.count)
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := make([]json.RawMessage, c.count)
	for i := range all {
		all[i] = c.record(nil, i)
	}
	return all, nil
}

// WriteContactsNDJSON writes the first n contacts as they are served now, one per line. Benchmarks use this as a
// baseline.
func (s *Server) WriteContactsNDJSON(w io.Writer, n int) error {
	c := s.contacts
	if c == nil {
		return errors.New("write contacts: the sandbox was made without Options.Contacts")
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	var buffer []byte
	for i := range min(n, c.count) {
		buffer = append(c.record(buffer, i), '\n')
		if len(buffer) > 1<<20 {
			if _, err := w.Write(buffer); err != nil {
				return fmt.Errorf("write contacts: %w", err)
			}
			buffer = buffer[:0]
		}
	}
	if _, err := w.Write(buffer); err != nil {
		return fmt.Errorf("write contacts: %w", err)
	}
	return nil
}
