package budget

import (
	"math"
	"slices"
	"time"
)

// need is how many grants the callers of a governor need.
type need struct {
	waiting int     // callers that wait
	second  int64   // grants needed per second; the constant `everything` means as many as possible
	held    instant // the governor already has a lease until this instant
}

const (
	everything = math.MaxInt32
	needFactor = 1.7              // a governor that used n grants states that it needs n times this factor, because needs may grow
	needAge    = 3 * leasePeriod  // if a governor's last exchange is longer ago than this, the governor needs no grants
	othersAge  = 20 * time.Second // in this time, the estimate of the requests of other programs falls by about two thirds
	looseShare = 20               // grants are loose (see need) only if the limit has at least this many requests for each member with loose grants
)

// lease is a set of grants that a governor gets in one exchange.
type lease struct {
	grants []grant
	until  instant       // the end of the time for which the governor gets these grants
	lead   time.Duration // how long before the end the next exchange should begin
	wait   time.Duration // if there are no grants: how long to wait before the next exchange
}

// need records how many grants a member needs. This is also a sign of life of the member.
//
// A member that does not use most of its grants sends requests rarely. Each request would have to wait for the instant
// of the next grant. So the grants of such a member are loose: the member may use a grant until the instant of its next
// grant. A request that is sent later than planned may fall into a later window. So each member with loose grants may
// add one request to a window, and the record plans one request less for each of these members. // Invariant 4
func (r *record) need(id uint64, n need, now instant) {
	r.sign(id, now)
	loose, live := 0, 0
	for i := range r.members {
		m := &r.members[i]
		if m.id == id {
			m.seen, m.need = now, n.second
		}
		if m.need > 0 && now.sub(m.seen) < needAge {
			live++
			if m.need < everything {
				loose++
			}
		}
	}
	if limit, _ := r.limit.allowed(); live < 2 || !r.limit.certain() || limit < float64(looseShare*loose) {
		loose = 0
	}
	if loose > r.loose {
		r.looseFrom = r.paced.add(late) // requests before this instant are reserved already, without room for loose grants
	}
	r.loose = loose
	r.noteOthers(now)
}

// noteOthers estimates how many requests of a window other programs send. With long leases, the record learns late if
// other programs send more than before. So the estimate is a little higher than the number seen, and falls slowly.
func (r *record) noteOthers(now instant) {
	seen := max(r.limit.foreign[0], r.limit.foreign[1])
	if seen > 0 {
		seen += 1 + seen/10
	}
	age := min(max(now.sub(r.stamp), 0), othersAge)
	r.others = max(seen, r.others*(1-age.Seconds()/othersAge.Seconds()))
}

// allowed returns how many requests may be planned for one window, and the length of the window.
func (r *record) allowed() (float64, time.Duration) {
	n, window := r.limit.allowed()
	if r.limit.certain() {
		n = min(n, float64(r.limit.rate.Limit)-r.others)
	}
	return max(n-float64(r.loose), 1), window
}

// lease returns a lease for a member. The grants begin one round trip to the ledger from now, because the governor
// cannot use them earlier. First the record reserves all requests of the period. Then the member leases its share of
// them, evenly spread. The other requests remain for the members that need grants later.
//
// If another governor closes the gate, this governor learns it at its next exchange. Until then, the server refuses
// this governor's requests.
func (r *record) lease(id uint64, now instant, trip time.Duration, n need) lease {
	if wait := r.gate.until.sub(now); wait > 0 {
		r.dropUnleased(math.MaxInt64)
		return lease{wait: min(wait, lastPeriod)}
	}
	first := now.add(trip)
	got := lease{lead: 2*trip + leaseSlack, until: min(first.add(leasePeriod+2*trip+leaseSlack), now.add(mostAhead))}
	most := mostLeased
	if !r.limit.certain() {
		span := max(leaseSpan, leaseTrips*trip)
		got.lead, got.until, most = 2*trip+leaseSpan/2, first.add(span), n.waiting
	}
	r.dropUnleased(first)
	if needy, older := r.needy(id, now); needy > 1 && r.perPeriod() < float64(needy) {
		return r.leaseInTurn(id, now, first, got, older)
	}
	known := len(r.unleased) // reserved earlier
	why := r.reserveAhead(now, first, &got, most)
	short := why == waitsForAnswers || len(r.unleased) >= most
	from := min(max(first, n.held), got.until)
	got.grants = r.takeUnleased(r.share(id, from, got.until, r.unleased[known:], now), from, got.until)
	if short && len(got.grants) > 0 {
		got.until = got.grants[len(got.grants)-1].at
	}
	if r.loose > 0 && n.second < everything {
		r.loosen(got.grants, got.until)
	}
	r.noteLast(id, got.grants)
	return got
}

// perPeriod returns how many requests the limit allows in the time between two exchanges.
func (r *record) perPeriod() float64 {
	n, window := r.allowed()
	return n * leasePeriod.Seconds() / window.Seconds()
}

// needy returns how many members need grants. The second result is how many of them got their last grant earlier than
// this member.
func (r *record) needy(id uint64, now instant) (needy, older int) {
	var last instant
	for _, m := range r.members {
		if m.id == id {
			last = m.last
		}
	}
	for _, m := range r.members {
		if m.need == 0 || now.sub(m.seen) >= needAge {
			continue
		}
		needy++
		if m.id != id && (m.last < last || m.last == last && m.id < id) {
			older++
		}
	}
	return needy, older
}

// leaseInTurn returns a lease with a single grant. It is used if the limit allows fewer requests in a period than there
// are members. The members take turns: the member whose last grant is the oldest comes first.
func (r *record) leaseInTurn(id uint64, now, first instant, got lease, older int) lease {
	for len(r.unleased) <= older {
		g, again, why := r.reserve(now, first, now.add(mostAhead))
		switch {
		case why != "" && older > 0:
			return lease{wait: leasePeriod}
		case why != "":
			return lease{wait: min(max(again.sub(now)-mostAhead/2, firstPeriod), lastPeriod)}
		}
		r.unleased = append(r.unleased, g)
	}
	got.grants = []grant{r.unleased[older]}
	r.unleased = slices.Delete(r.unleased, older, older+1)
	r.noteLast(id, got.grants)
	return got
}

// noteLast notes the instant of a member's last grant.
func (r *record) noteLast(id uint64, grants []grant) {
	for i := range r.members {
		if m := &r.members[i]; m.id == id && len(grants) > 0 {
			m.last = grants[len(grants)-1].at
		}
	}
}

// loosen makes grants loose: each grant may be used until the instant of the next grant, and the last grant until the
// lease ends.
func (r *record) loosen(grants []grant, until instant) {
	for i := range grants {
		g, next := &grants[i], until
		if i+1 < len(grants) {
			next = grants[i+1].at
		}
		if g.at >= r.looseFrom && next > g.at {
			r.window.drop(g.noted)
			g.noted, g.loose = g.noted.add(next.sub(g.at)), next.sub(g.at)
			r.window.note(g.noted, 1)
		}
	}
}

// MostShared is about how many requests per second the members of a ledger can send together, even if the limit is higher.
const MostShared = int(time.Second / leastStep)

// leastStep is the shortest time between two requests that are reserved ahead. So even if the limit is very high, a lease
// lasts for a whole period, and one exchange in a period is enough.
const leastStep = mostAhead / mostLeased

// reserveAhead reserves all requests until the lease ends: at least one, but no more than the given number.
func (r *record) reserveAhead(now, first instant, got *lease, most int) (why string) {
	latest := now.add(mostAhead)
	for len(r.unleased) < most {
		if len(r.unleased) > 0 {
			latest = min(latest, got.until)
		}
		g, again, why := r.reserve(now, first, latest)
		switch {
		case why == "":
			r.unleased = append(r.unleased, g)
			first = max(first, g.at.add(leastStep))
			continue
		case why == waitsForAnswers:
			got.wait = min(again.sub(now), firstPeriod)
		default:
			got.wait = min(max(again.sub(now)-mostAhead/2, time.Millisecond), lastPeriod)
		}
		return why
	}
	return ""
}

// dropUnleased gives up reserved requests that no member has leased, if they are planned before the given instant.
func (r *record) dropUnleased(until instant) {
	r.unleased = slices.DeleteFunc(r.unleased, func(g grant) bool {
		if g.at >= until {
			return false
		}
		r.release(g.noted)
		return true
	})
}

// takeUnleased takes about n of the reserved requests that no member has leased. They are evenly spread between two
// instants. Where other members have left only a few requests, takeUnleased takes fewer than n. It does not make up for
// this with grants that are close together, because too few callers could use them.
func (r *record) takeUnleased(n int, from, until instant) (taken []grant) {
	left := r.unleased[:0]
	step := until.sub(from) * 95 / 100 / time.Duration(n) // a little shorter, because other members have taken some of the requests
	next := from
	for _, g := range r.unleased {
		if g.at < next {
			left = append(left, g)
			continue
		}
		taken = append(taken, g)
		next = max(next.add(step), g.at.add(step/2))
	}
	r.unleased = left
	return taken
}

// share returns how many grants a member may lease between two instants. A member that needs less than an equal part
// gets what it needs. The other members share the rest equally. If all members get what they need, they share equally
// what remains, because needs may grow. The argument `fresh` has the requests that were reserved just now. All other
// unleased requests were reserved before, and the other members have already leased their share of them.
func (r *record) share(id uint64, from, until instant, fresh []grant, now instant) int {
	n, window := r.allowed()
	span := until.sub(from)
	old := span
	if len(fresh) > 0 {
		old = max(0, fresh[0].at.sub(from))
	}
	left := n*old.Seconds()/window.Seconds() + float64(len(fresh))
	var mine float64
	var needs []float64
	for _, m := range r.members {
		if need := float64(m.need) * span.Seconds(); m.id == id {
			mine, needs = need, append(needs, need)
		} else if m.need > 0 && now.sub(m.seen) < needAge {
			needs = append(needs, need)
		}
	}
	if len(needs) == 1 {
		return mostLeased
	}
	slices.Sort(needs)
	for i, need := range needs {
		part := left / float64(len(needs)-i)
		if need >= part {
			return atLeastOne(min(mine, part))
		}
		left -= need
	}
	return atLeastOne(mine + left/float64(len(needs)))
}

func atLeastOne(n float64) int { return max(1, int(math.Ceil(min(n, mostLeased)))) }

// expiredAfter looks at the grants that have expired since the last lease. It returns how many of them the window would
// still count after the given instant. The instant must not be earlier than in the previous call, because expiredAfter
// forgets grants that no longer count. The caller holds the governor's lock.
func (f *fleet) expiredAfter(at instant) int {
	for len(f.expired) > 0 && f.expired[0] <= at {
		f.expired = f.expired[1:]
	}
	return len(f.expired)
}

// suspended reports whether the machine has slept since the last lease. The governor's clock may have stopped
// meanwhile. Then the instants of its grants have passed, although its clock does not show that.
func (f *fleet) suspended() bool {
	return (time.Now().Round(0).Sub(f.wall) - time.Since(f.since)).Abs() > late
}
