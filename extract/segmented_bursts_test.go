package extract

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

// timed is a list like keyed: each page is requested with the key of the record before it. But the keys are texts that
// begin with a time.
type timed struct {
	keys  []string // in order
	falls bool
	total bool // pages state the total
}

func (l *timed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	size, at := min(number(r, "limit", 10), 100), 0
	if after := r.URL.Query().Get("starting_after"); after != "" {
		at = sort.Search(len(l.keys), func(i int) bool { return l.keys[i] > after && !l.falls || l.keys[i] < after && l.falls })
	}
	page := l.keys[at:min(at+size, len(l.keys))]
	records := []map[string]any{}
	for _, key := range page {
		records = append(records, map[string]any{"id": key})
	}
	body := map[string]any{"data": records, "has_more": at+len(page) < len(l.keys)}
	if l.total {
		body["total"] = len(l.keys)
	}
	_ = json.NewEncoder(w).Encode(body)
}

// burstsOf returns the times of n records: bursts of about 300 records, some minutes without records, and nights of 8
// to 16 hours. The latest time is one hour before the argument end.
func burstsOf(n int, end time.Time, r *rand.Rand) []time.Time {
	times := make([]time.Time, n)
	at := end.Add(-time.Hour)
	for i := range times {
		times[n-1-i] = at.Truncate(time.Millisecond)
		switch x := r.IntN(1000); {
		case x < 3:
			at = at.Add(-8*time.Hour - time.Duration(r.Int64N(int64(8*time.Hour))))
		case x < 40:
			at = at.Add(-time.Millisecond - time.Duration(r.Int64N(int64(10*time.Minute))))
		default:
			at = at.Add(-time.Millisecond - time.Duration(r.Int64N(int64(2*time.Second))))
		}
	}
	return times
}

// timedForms are the forms of keys that begin with a time.
var timedForms = map[string]func(at time.Time, r *rand.Rand) string{
	"ULIDs": func(at time.Time, r *rand.Rand) string {
		const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
		key := make([]byte, 26)
		for i := range key {
			key[i] = digits[r.IntN(32)]
		}
		for i, ms := 9, at.UnixMilli(); i >= 0; i, ms = i-1, ms>>5 {
			key[i] = digits[ms&31]
		}
		return string(key)
	},
	"ObjectIds": func(at time.Time, _ *rand.Rand) string {
		return fmt.Sprintf("%08x5f1ab2c3d4%06x", at.Unix(), at.Nanosecond()/1e6)
	},
	"UUIDs": func(at time.Time, r *rand.Rand) string {
		hex := fmt.Sprintf("%012x7%03x%04x%012x", at.UnixMilli(), r.IntN(1<<12), 0x8000+r.IntN(1<<14), r.Int64N(1<<48))
		return strings.Join([]string{hex[:8], hex[8:12], hex[12:16], hex[16:20], hex[20:]}, "-")
	},
	"moments": func(at time.Time, _ *rand.Rand) string { return at.Format("2006-01-02T15:04:05.000Z") },
}

// Records come in bursts, with quiet nights between them. Each key begins with the time of its record, so two keys say
// little about how many records are between them. Still, the list is read in segments, and each record is read once, in
// order. This takes at most 3.2 times as long as a list that is paged by number. One page after another would take 16
// times as long.
func TestKeysOfBursts(t *testing.T) {
	for form, write := range timedForms {
		for i := range 8 {
			if testing.Short() && i > 1 && form != "moments" {
				continue
			}
			l := &timed{falls: i&1 != 0, total: i&2 != 0}
			end := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
			if i&4 != 0 {
				end = end.AddDate(-2, 0, 0)
			}
			t.Run(fmt.Sprintf("%s until %d, falls %t, total %t", form, end.Year(), l.falls, l.total), func(t *testing.T) {
				r := rand.New(rand.NewPCG(3, 19))
				for _, at := range burstsOf(20_000, end, r) {
					l.keys = append(l.keys, write(at, r))
				}
				if l.falls {
					slices.Reverse(l.keys)
				}
				server := &farServer{limit: 100, latency: 200 * time.Millisecond, page: l.ServeHTTP}
				var got []string
				var note string
				var took time.Duration
				far(t, server, []schemas.Stream{keyedStream()}, func(c *Client) {
					begin := time.Now()
					for p, err := range c.Pages(context.Background(), keyedStream(), "") {
						require.NoError(t, err)
						var rows []struct{ ID string }
						require.NoError(t, json.Unmarshal(p.Records, &rows))
						for _, row := range rows {
							got = append(got, row.ID)
						}
						if p.End != nil {
							note = p.End.Note
						}
					}
					took = time.Since(begin)
				})
				require.Equal(t, l.keys, got)
				require.Contains(t, note, "segments at the same time")
				require.Zero(t, server.refused, "429s")
				t.Logf("%s, %d requests", took, len(server.requests))
				require.LessOrEqual(t, took.Seconds(), 3.2*2.44)
				require.LessOrEqual(t, len(server.requests), 340)
			})
		}
	}
}
