package transform

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func contacts(pages, size int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([][]byte, pages)
	for p := range out {
		b := []byte{'['}
		for i := range size {
			if i > 0 {
				b = append(b, ',')
			}
			b = contact(b, r, p*size+i)
		}
		out[p] = append(b, ']')
	}
	return out
}

func contact(b []byte, r *rand.Rand, id int) []byte {
	first := [...]string{"Zoë", "Jürgen", "María", "Søren", "Anna", "Peter", "Łukasz", "Noor"}
	last := [...]string{"Ñandú", "Müller", "O'Brien", "García", "Smith", "Kowalski", "Björk", "Jones"}
	city := [...]string{"München", "Berlin", "São Paulo", "Kraków", "London", "Oslo"}
	pick := func(s []string) string { return s[r.IntN(len(s))] }
	f, l := pick(first[:]), pick(last[:])
	orNull := func(n int, s string) string {
		if id%n == 0 {
			return "null"
		}
		return s
	}
	when := func() string {
		return time.Unix(1_700_000_000+r.Int64N(80_000_000), 0).UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	return fmt.Appendf(b, `{"id":%d,"object":"contact","uid":"con_%012x","account":"acc_%08x","first_name":"%s","last_name":"%s",`+
		`"email":"user%d@example%d.test","phone":%s,"company":%s,"balance":"%d.%02d","credit_limit":"%d.00","score":%d,`+
		`"active":%t,"subscribed":%t,"created_at":"%s","updated_at":"%s","created":%d,"last_seen":%s,"owner_id":%d,`+
		`"address":{"street":"%d Main St","city":"%s","zip":"%05d","country":"DE"},"tags":["vip","t%d","news"],`+
		`"emails":[{"kind":"work","value":"w%d@example.test"},{"kind":"home","value":"h%d@example.test"}],`+
		`"archived_at":null,"locale":"en_GB","note":%s}`,
		1_000_000+id, r.Uint64()&0xffffffffffff, r.Uint32(), f, l, id, r.IntN(50),
		orNull(3, fmt.Sprintf(`"+49 %d"`, r.IntN(1_000_000_000))), orNull(7, fmt.Sprintf(`"Company %d GmbH"`, r.IntN(5000))),
		r.IntN(100000), r.IntN(100), r.IntN(100)*100, r.IntN(1000), r.IntN(2) == 0, r.IntN(3) == 0, when(), when(),
		1_700_000_000+r.IntN(80_000_000), orNull(2, fmt.Sprint(1_700_000_000+r.IntN(80_000_000))), r.IntN(100),
		r.IntN(300), pick(city[:]), r.IntN(100000), r.IntN(20), id, id,
		orNull(2, `"Met at the fair, wants an offer"`))
}

func contactStream() schemas.Stream {
	return schemas.Stream{Table: schemas.Table{Name: "v2_contacts", Key: []string{"id"}}, Name: "v2.contacts"}
}

var testStamp = Stamp{Run: "0123456789ab", SyncedAt: time.Unix(1_760_000_000, 0), Via: "poll"}

func TestContactsAreAsMeasured(t *testing.T) {
	page := contacts(1, 1000)[0]
	var records []map[string]any
	require.NoError(t, json.Unmarshal(page, &records))
	require.Len(t, records[0], 25)
	require.InDelta(t, 709, len(page)/1000, 12)
}

func TestContactsAgreeWithTheOracle(t *testing.T) {
	var pages []string
	for _, p := range contacts(3, 300) {
		pages = append(pages, string(p))
	}
	check(t, contactStream(), pages...)
	check(t, contactStream(), append(pages, `[{"id":1},{"id":2}]`)...)
	check(t, contactStream(), append(pages, `[{"id":"k","score":1.5,"active":"yes","created_at":"-","tags":[1],"address":5,
		"emails":[{"kind":{"x":1},"value":[1]},{"kind":null,"value":1e5}],"created":true,"owner_id":[1,[2]],"note":["n"]}]`)...)
	declared := contactStream()
	declared.Types = map[string]string{"balance": "decimal", "credit_limit": "decimal(12,2)", "last_seen": "decimal", "emails__kind": "json"}
	check(t, declared, pages...)
	check(t, declared, append(pages, `[{"id":3,"balance":"1.234","credit_limit":"-","emails":[{}]}]`)...)
}

func TestLongTexts(t *testing.T) {
	for _, piece := range []string{"x", `\u00e9`, `\ud83d\ude00`, "é", `\n`, "1234567\\u00e9"} {
		for n := range 40 {
			check(t, anyStream, fmt.Sprintf(`[{"s":"%s"},{"s":"%s","%s":1}]`,
				strings.Repeat(piece, 30*n), strings.Repeat("y", n)+strings.Repeat(piece, n), strings.Repeat(piece, n)))
		}
	}
}

func TestSteadyStateAllocations(t *testing.T) {
	pages := contacts(10, 1000)
	m := NewMapper(contactStream(), testStamp, nil)
	defer m.Close()
	batch := func() {
		for _, p := range pages {
			require.NoError(t, appendAll(m, p))
		}
		batches, _ := m.Flush()
		for _, b := range batches {
			b.Batch.Release()
		}
	}
	batch()
	require.Less(t, testing.AllocsPerRun(5, batch)/float64(10*1000), 0.1, "allocations a record")
}
