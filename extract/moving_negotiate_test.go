package extract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A list that grows during the probes has records after its stated last page. If the stated numbers have grown too,
// the list is accepted. Otherwise the negotiation stops.
func TestListThatGrowsDuringNegotiation(t *testing.T) {
	for name, grows := range map[string]bool{"the stated numbers grow": true, "the stated numbers stay": false} {
		t.Run(name, func(t *testing.T) {
			var requested atomic.Int64
			s := own("x.things")
			f := serve(t, func(w http.ResponseWriter, r *http.Request) {
				p, n := number(r, "page", 1), 40
				if requested.Add(1); p == 5 {
					n = 50
				}
				said := 40
				if grows && requested.Load() > 3 {
					n, said = 50, 50
				}
				fmt.Fprintf(w, `{"data":%s,"meta":{"current_page":%d,"last_page":%d,"total":%d}}`, rows((p-1)*10, p*10, n), p, (said+9)/10, said)
			}, s)
			_, err := f.Negotiate(t.Context(), s)
			if grows {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "page 4 is its last, but the page after it has other records")
		})
	}
}

// The second page repeats the first page. The pass requests the second page again, with the server's own page size. If
// this answer has other records, the list has ended. Otherwise the server ignores page numbers, and the pass fails.
func TestOnlyPageRepeats(t *testing.T) {
	usesNumber := true
	s := own("x.things")
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		p, size := number(r, "page", 1), number(r, "limit", 10)
		if !usesNumber || (p-1)*size >= 37 {
			p = 1
		}
		fmt.Fprintf(w, `{"data":%s}`, rows((p-1)*size, p*size, 37))
	}, s)
	c, r := learn(t, f, s)
	require.Equal(t, wanted(37), r.ids())
	require.Equal(t, RuleRepeat, r.end.Rule)
	usesNumber = false
	_, err := read(f.Client, c.Apply(s), "")
	require.ErrorContains(t, err, "repeats")
}

func TestInsertDuringTheProbeOfAnOffset(t *testing.T) {
	s := own("x.things")
	inserted := false
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		from := number(r, "skip", 0)
		inserted = inserted || r.URL.RawQuery == "skip=1"
		all := rows(0, 37, 37)
		if inserted {
			all = `[{"id":38,"name":"r38"},` + all[1:]
		}
		var records []json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(all), &records))
		page, _ := json.Marshal(records[min(from, len(records)):min(from+10, len(records))])
		fmt.Fprintf(w, `{"data":%s}`, page)
	}, s)
	c, r := learn(t, f, s)
	require.False(t, c.Pagination.One)
	require.Len(t, r.records, 38)
}

func TestEmptyListBesideLinks(t *testing.T) {
	s := own("x.things")
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"customers":[],"links":[{"rel":"self","href":"/x"}]}`)
	}, s)
	_, r := learn(t, f, s)
	require.Empty(t, r.records)
}
