package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// No window has more requests than the limit, whatever grants members lease, and whenever they use them within the
// allowed time. Members report unused grants late, or they die and report nothing. // Invariant 4
func TestLeases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Rate{rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(20, 60)).Draw(t, "limit"), time.Second}
		r := newRecord(Plan{Rate: limit})
		r.limit.share, r.limit.cleanWindows = 1, certainAfter
		begin := instant(time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC).UnixNano())
		var sent []time.Time
		members := make([]simulated, rapid.IntRange(1, 4).Draw(t, "members"))
		for i := range members {
			m := &members[i]
			m.needs, m.due = everything, begin.add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "begin"))*time.Millisecond)
			m.trip = time.Duration(rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(100, 900)).Draw(t, "trip")) * time.Millisecond
			if rapid.Bool().Draw(t, "needs little") {
				m.needs = rapid.Int64Range(1, 10).Draw(t, "needs")
			}
		}
		careful := rapid.Bool().Draw(t, "careful") // all grants are used and reported
		for range 40 {
			id := 0
			for i := range members {
				if members[i].due < members[id].due {
					id = i
				}
			}
			m := &members[id]
			now := m.due
			r.advance(now)
			for _, p := range m.untold {
				r.apply(p)
			}
			m.untold = nil
			n := need{waiting: 3, second: m.needs, held: m.held}
			r.need(uint64(id+1), n, now)
			got := r.lease(uint64(id+1), now, m.trip, n)
			m.held = got.until
			m.due = max(now.add(max(got.wait, time.Millisecond)), got.until.add(-got.lead)).add(time.Duration(rapid.IntRange(0, 30).Draw(t, "later")) * time.Millisecond)
			for _, g := range got.grants {
				use := g.at
				if rapid.Bool().Draw(t, "late") {
					use = g.at.add(g.loose + late)
				}
				fate := 2
				if !careful {
					fate = rapid.IntRange(0, 9).Draw(t, "fate")
				}
				switch fate {
				case 0: // never used
					m.untold = append(m.untold, report{at: use, outcome: expired, settles: true, noted: g.noted})
				case 1: // used, but the process dies before it reports
					sent = append(sent, use.time())
				default:
					sent = append(sent, use.time())
					m.untold = append(m.untold, report{at: use.add(time.Millisecond), outcome: answered, settles: true, noted: g.noted, sent: use, status: 200, header: hints{left: -1}})
				}
			}
			r.stamp = now
		}
		require.LessOrEqual(t, maxInWindow(sent, limit.Window), limit.Limit)
	})
}

// simulated is a member of the record.
type simulated struct {
	needs     int64
	trip      time.Duration
	due, held instant
	untold    []report
}

// If the limit and the need are very high, the workers send about as many requests as the ledger can lease, and hardly more.
func TestFleetMostShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &link{counter: &slidingWindow{limit: 100_000, window: time.Second}, latency: 20 * time.Millisecond, headers: true}
		begin := time.Now()
		l.fleet(t, newMemoryLedger(2*time.Millisecond), Plan{Rate: Rate{100_000, time.Second}}, 4, 100, 15*time.Second)()
		perSecond := float64(between(l.Arrivals, begin.Add(5*time.Second), begin.Add(15*time.Second))) / 10
		t.Logf("%.0f requests a second", perSecond)
		require.InEpsilon(t, MostShared, perSecond, 0.2)
	})
}
