package budget

import (
	"net/http"
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// instant is a time on the record's clock, in nanoseconds since 1970.
type instant int64

func (i instant) add(d time.Duration) instant { return i + instant(d) }
func (i instant) sub(o instant) time.Duration { return time.Duration(i - o) }
func (i instant) before(o instant) bool       { return i < o }
func (i instant) second() int64               { return int64(i) / int64(time.Second) }
func (i instant) time() time.Time             { return time.Unix(0, int64(i)) }

// record holds all that is known about the requests and the limit of a credential. Governors share the record in a
// file or in a database.
type record struct {
	stamp instant       // time of the last change
	ahead time.Duration // for a record in a file: how far its clock is ahead of the machine's clock

	window   requestWindow
	limit    limitEstimate
	gate     breaker
	paced    instant // instant of the last request, as pace() counts it
	sent     uint64
	refused  uint64
	members  []member
	unleased []grant // reserved requests that no member has leased, in the order of their instants

	loose     int     // members whose grants are loose; see need
	looseFrom instant // grants before this instant are not loose
	others    float64 // requests of a window that are left to other programs; see noteOthers
}

// member is a governor that shares the record.
type member struct {
	id   uint64
	seen instant // last sign of life of the member
	last instant // instant of its last grant from a ledger
	need int64   // grants per second that the member needs from a ledger; see need
}

// memberLease is how long a member counts as alive without a sign of life.
const memberLease = 30 * time.Second

// recordAge is how long a learned limit is used after the last change of the record.
const recordAge = 24 * time.Hour

// late is how long after its instant a permit may be used. At first, the window counts each request as if it were sent
// as late as allowed. So if the process dies before it reports the request, the count is still right. // Invariant 4
//
// After a delay, requests may be sent closer together than at the even pace. They make up for at most this duration.
const late = 25 * time.Millisecond

// newRecord returns the record of a credential without requests.
func newRecord(plan Plan) record { return record{limit: newLimitEstimate(plan)} }

// advance moves the request window to now.
func (r *record) advance(now instant) {
	_, window := r.limit.allowed()
	r.window.advance(now, window)
}

// grant is a request that the record reserves.
type grant struct {
	at      instant       // when the request may be sent
	noted   instant       // instant at which the window counts the request
	counted int           // number of requests that the window counts at that instant, including this one
	loose   time.Duration // for a leased grant: how much later it may be used
}

// reserve reserves one request for the first instant between earliest and latest that the pace and the limit allow. If
// there is no such instant, reserve returns when to try again, and the reason for the wait.
// Invariant 4
func (r *record) reserve(now, earliest, latest instant) (g grant, nextTry instant, waitsFor string) {
	if r.gate.probing && now.before(r.gate.probeUntil) {
		return grant{}, r.gate.probeUntil, waitsForAnswers
	}
	paced := r.pace(earliest)
	n, window := r.allowed()
	g.at, g.counted = r.window.room(max(paced, earliest), window, n)
	switch {
	case g.at > latest && g.at == paced:
		return grant{}, g.at, waitsForPace
	case g.at > latest:
		return grant{}, g.at, waitsForLimit
	}
	g.counted++
	g.noted = r.noting(g.at, now)
	r.window.note(g.noted, 1)
	r.paced = max(paced, g.at.add(-late))
	if r.gate.probing {
		r.gate.probeUntil = g.at.add(probeWait)
	}
	r.limit.sent(now)
	r.sent++
	return g, 0, ""
}

// pace returns the instant of the next request if requests are sent at an even pace. It begins its computation a little
// earlier than the instant `earliest`, by the constant `late`. So after a delay, requests can be a little closer
// together.
func (r *record) pace(earliest instant) instant {
	if r.sent == 0 {
		return earliest
	}
	n, window := r.allowed()
	limiter := rate.NewLimiter(rate.Limit(n/window.Seconds()), 1)
	limiter.ReserveN(r.paced.time(), 1)
	begin := max(earliest.add(-late), r.paced)
	return begin.add(limiter.ReserveN(begin.time(), 1).DelayFrom(begin.time()))
}

// noting returns the instant at which the window counts a request that is sent at the planned instant or a little
// later. A leased request is planned for the future, and gets a shorter guard. With the longest guard, the leased
// requests that are not sent yet would use up much of the limit.
func (r *record) noting(planned, now instant) instant {
	guard := r.window.unanswered(r.limit.window())
	if planned > now {
		guard = min(max(2*r.window.guard, leastGuard), r.window.longestMean(now))
	}
	return planned.add(late + guard)
}

// release takes a request out of the counts, because it was not sent.
func (r *record) release(noted instant) {
	r.window.drop(noted)
	r.sent -= min(r.sent, 1)
	r.limit.used = max(0, r.limit.used-1)
}

// report is what a governor reports about a request.
type report struct {
	at      instant // when the governor made the report
	outcome outcome
	settles bool    // this report decides how long the request counts
	moved   instant // the new value of noted, if the outcome is `delayed`
	noted   instant // see grant
	sent    instant // 0: not sent
	counted int     // see grant
	epoch   int64   // see Permit
	probe   bool    // see Permit

	status int           // status of the answer
	header hints         // hints in the answer's header
	wait   time.Duration // wait that the answer's body requests
}

// outcome is the kind of a report.
type outcome uint8

const (
	dropped  outcome = iota // no answer will come, perhaps for a reason that has nothing to do with the server
	expired                 // the grant was not used in time
	delayed                 // the request was sent later than the grant allows
	lost                    // the server did not answer
	answered                // the server answered: see status
	asked                   // the answer's body requests a wait
)

// apply applies a report.
func (r *record) apply(p report) {
	if p.settles {
		r.settle(p)
	}
	switch {
	case p.outcome == expired:
	case p.outcome == dropped:
		r.gate.probeUntil = 0
	case p.outcome == delayed:
		r.window.drop(p.noted)
		r.window.note(p.moved, 1)
	case p.outcome == asked:
		r.gate.extend(p.at.add(p.wait), tooMany)
	case p.outcome == lost:
		r.gate.failed(p.epoch, p.at, 0)
	case p.status == http.StatusTooManyRequests:
		r.refused++
		retry := p.header.retry
		if !p.header.hasRetry && p.header.hasReset {
			retry = p.header.reset
		}
		if r.gate.refused(p.epoch, p.at, retry) {
			r.window.refuse(p.at)
			r.limit.refused(p.at, retry, p.header.limit, r.gate.strikes > 1)
		}
	case p.status >= 500:
		r.limit.accepted(p.sent)
		r.gate.stumbled(p.epoch, p.at, p.header.retry, p.probe)
	default:
		r.limit.accepted(p.sent)
		if pause := r.limit.observe(p.header, p.counted); pause > 0 {
			r.gate.extend(p.at.add(pause), usedUp)
		}
		r.gate.passed(p.epoch)
	}
}

// settle decides how long an answered or lost request counts.
func (r *record) settle(p report) {
	if p.sent == 0 {
		r.release(p.noted) // never sent, so the server has not counted the request
		return
	}
	guard := r.window.guardFor(p.at.sub(p.sent), p.outcome == answered, p.at)
	if r.window.drop(p.noted) {
		r.window.note(p.sent.add(guard), 1)
	}
}

// clockSlack is how far two clocks may differ and still count as equal.
const clockSlack = time.Second

// join adds a member. If no other member is alive, and the record is old or the configured limit has changed, join
// resets the limit.
func (r *record) join(id uint64, plan Plan, now instant) {
	r.members = slices.DeleteFunc(r.members, func(m member) bool { return now.sub(m.seen) >= memberLease })
	mine := newLimitEstimate(plan)
	if alone := !r.shared(id); alone {
		if !r.limit.sameConfig(&mine) || now.sub(r.stamp) > recordAge {
			r.limit = mine
		}
		if r.gate.reason == failing { // the server may work again
			r.gate = breaker{epoch: r.gate.epoch}
		}
	}
	r.applyLimit(mine)
	r.gate.until = min(r.gate.until, now.add(longestHint))
	r.sign(id, now)
}

// applyLimit applies a member's configured limit if it is lower. It reports whether it did.
func (r *record) applyLimit(mine limitEstimate) bool {
	if r.limit.sameConfig(&mine) || !mine.tighter(&r.limit) {
		return false
	}
	r.limit = mine
	return true
}

// sign records a sign of life of a member, at most once per second. It reports whether it changed the record.
func (r *record) sign(id uint64, now instant) bool {
	for i := range r.members {
		if m := &r.members[i]; m.id == id {
			due := now.sub(m.seen).Abs() >= time.Second
			if due {
				m.seen = now
			}
			return due
		}
	}
	r.members = append(r.members, member{id: id, seen: now})
	return true
}

// leave removes a member.
func (r *record) leave(id uint64) {
	r.members = slices.DeleteFunc(r.members, func(m member) bool { return m.id == id })
}

// shared reports whether the record has a member other than the one with this id.
func (r *record) shared(id uint64) bool {
	return slices.ContainsFunc(r.members, func(m member) bool { return m.id != id })
}

// turnBack repairs a record whose last change is in the future, because the clock was set back. A closed gate stays
// closed for the rest of its time, counted from now.
func (r *record) turnBack(now instant) {
	left := r.gate.until.sub(r.stamp)
	r.window, r.members, r.unleased, r.paced = requestWindow{}, nil, nil, 0
	r.gate.until, r.gate.probeUntil, r.limit.windowEnds, r.looseFrom = 0, 0, 0, 0
	if left > 0 {
		r.gate.until = now.add(min(left, longestHint))
	}
	r.pause(now)
}

// pause stops all requests for as long as the server may count requests that are missing from the record.
func (r *record) pause(now instant) {
	_, window := r.limit.allowed()
	r.gate.extend(now.add(window+late+mostGuard), usedUp)
}
