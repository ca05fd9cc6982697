package wire

import (
	"encoding/json"
	"math"
	"net/http"
	"time"
)

// budgetState is a credential's budget as the ledger stores it, in the form that a worker changes.
type budgetState struct {
	now           instant
	next          instant // when the next lease may begin
	slack         time.Duration
	limit         limitEstimate
	gate          breaker
	sent, refused uint64
}

// storedBudget is the stored form of budgetState. Workers of several versions read it, so its field names never
// change.
type storedBudget struct {
	At      int64  `json:"at"` // in Unix nanoseconds of the ledger's clock, like all times here
	Next    int64  `json:"next"`
	Slack   int64  `json:"slack"`
	Sent    uint64 `json:"sent"`
	Refused uint64 `json:"refused"`

	GateUntil    int64  `json:"gate_until"`
	GateReason   reason `json:"gate_reason"`
	GateEpoch    int64  `json:"gate_epoch"`
	GateProbing  bool   `json:"gate_probing"`
	GateProbe    int64  `json:"gate_probe"`
	GateStrikes  int64  `json:"gate_strikes"`
	GateFailures int64  `json:"gate_failures"`
	GateOutages  int64  `json:"gate_outages"`

	Asked       Rate       `json:"asked"`
	Reserve     float64    `json:"reserve"`
	Rate        Rate       `json:"rate"`
	Share       float64    `json:"share"`
	Stumbled    bool       `json:"stumbled"`
	Guessed     bool       `json:"guessed"`
	Unsure      bool       `json:"unsure"`
	Felt        float64    `json:"felt"`
	Top         float64    `json:"top"`
	Largest     int        `json:"largest"`
	Stated      int        `json:"stated"`
	Foreign     [2]float64 `json:"foreign"`
	Agreed      bool       `json:"agreed"`
	WindowEnds  int64      `json:"window_ends"`
	Clean       int        `json:"clean"`
	Used        int        `json:"used"`
	Taken       int        `json:"taken"`
	TakenBefore int        `json:"taken_before"`
	Seconds     [4]int     `json:"seconds"`
	Last        int64      `json:"last"`
}

// openBudgetState decodes a stored budget. The argument stored is nil if there is none yet.
func openBudgetState(stored []byte, plan Budget, now instant) (budgetState, error) {
	a := budgetState{now: now, slack: lateToken, limit: newLimitEstimate(plan.Rate, plan.Reserve)}
	if stored == nil {
		return a, nil
	}
	var k storedBudget
	if err := json.Unmarshal(stored, &k); err != nil {
		return a, errUnreadableBudget
	}
	mine := a.limit
	a.next, a.slack, a.sent, a.refused = instant(k.Next), time.Duration(k.Slack), k.Sent, k.Refused
	a.gate = breaker{
		until: instant(k.GateUntil), reason: k.GateReason, epoch: k.GateEpoch, probing: k.GateProbing, probeUntil: instant(k.GateProbe),
		strikes: k.GateStrikes, failures: k.GateFailures, outages: k.GateOutages,
	}
	a.limit = limitEstimate{
		configured: k.Asked, reserve: k.Reserve, rate: k.Rate, share: k.Share, stumbled: k.Stumbled, guessed: k.Guessed, windowGuessed: k.Unsure,
		learned: k.Felt, refusedRate: k.Top, largestRemaining: k.Largest, stated: k.Stated, foreign: k.Foreign, sawHeaders: k.Agreed,
		windowEnds: instant(k.WindowEnds), cleanWindows: k.Clean, used: k.Used, taken: k.Taken, takenBefore: k.TakenBefore,
		history: tally{seconds: k.Seconds, last: k.Last},
	}
	a.settle(instant(k.At), mine)
	return a, nil
}

// settle corrects a stored budget that is old, was configured differently, or is ahead of the ledger's clock
// because the clock was set back.
func (a *budgetState) settle(at instant, mine limitEstimate) {
	c := &a.limit
	same := c.configured == mine.configured && c.reserve == mine.reserve
	idle := a.now.sub(at) > memberLease
	if idle && (!same || a.now.sub(at) > recordAge) || !same && mine.tighter(c) {
		a.limit = mine
	}
	_, window := a.limit.allowed()
	if at > a.now.add(clockSlack) {
		left := a.gate.until.sub(at)
		a.next, a.gate.until, a.gate.probeUntil, a.limit.windowEnds = a.now.add(window+mostGuard), 0, 0, 0
		a.gate.extend(a.now.add(min(max(left, 0), longestHint)), usedUp)
	}
	a.gate.until = min(a.gate.until, a.now.add(longestHint))
}

// apply applies the requests that a worker has sent and the answers that it got.
func (a *budgetState) apply(heard []answer, sent int, slack time.Duration) {
	b := budgetRecord{limit: a.limit, gate: a.gate, refused: a.refused}
	b.limit.used += sent
	a.sent += uint64(sent)
	for _, h := range heard {
		b.learn(h)
	}
	b.limit.advance(a.now)
	a.limit, a.gate, a.refused = b.limit, b.gate, b.refused
	a.slack = max(slack, a.slack-a.slack/64) // the largest slack that a worker needed lately; it decays slowly
}

// lease grants a worker up to want requests. trip is how long the worker's round trip to the ledger takes. If
// it grants none, it returns how long to wait.
func (a *budgetState) lease(want int, trip time.Duration) (l lease, wait time.Duration) {
	if wait := a.gate.until.sub(a.now); wait > 0 || want == 0 {
		return lease{}, min(max(wait, 0), lastPeriod)
	}
	n, window := a.limit.allowed()
	n = math.Max(n, 1)
	step := time.Duration(float64(window+a.slack) / n)
	start := max(a.next, a.now.add(trip))
	if ahead := start.sub(a.now); ahead > max(mostAhead, 2*step) {
		return lease{}, ahead - max(mostAhead, 2*step)/2
	}
	if a.gate.probing {
		if wait := a.gate.probeUntil.sub(a.now); wait > 0 {
			return lease{}, min(wait, firstPeriod) // one request goes first
		}
		want, a.gate.probeUntil = 1, start.add(probeWait)
	}
	span := max(leaseSpan, leaseTrips*trip)
	most := max(1, min(int(span/step), int(n)))
	l = lease{start: start, step: step, n: min(want, most)}
	a.next = start.add(time.Duration(l.n) * step)
	return l, 0
}

func (a *budgetState) stored() storedBudget {
	c, g := &a.limit, &a.gate
	return storedBudget{
		At: int64(a.now), Next: int64(a.next), Slack: int64(a.slack), Sent: a.sent, Refused: a.refused,
		GateUntil: int64(g.until), GateReason: g.reason, GateEpoch: g.epoch, GateProbing: g.probing, GateProbe: int64(g.probeUntil),
		GateStrikes: g.strikes, GateFailures: g.failures, GateOutages: g.outages,
		Asked: c.configured, Reserve: c.reserve, Rate: c.rate, Share: c.share, Stumbled: c.stumbled, Guessed: c.guessed, Unsure: c.windowGuessed,
		Felt: c.learned, Top: c.refusedRate, Largest: c.largestRemaining, Stated: c.stated, Foreign: c.foreign, Agreed: c.sawHeaders,
		WindowEnds: int64(c.windowEnds), Clean: c.cleanWindows, Used: c.used, Taken: c.taken, TakenBefore: c.takenBefore,
		Seconds: c.history.seconds, Last: c.history.last,
	}
}

// learn updates the limit and the gate from an answer.
func (b *budgetRecord) learn(a answer) {
	switch {
	case a.status == 0:
		b.gate.failed(a.epoch, a.at, 0)
	case a.status == http.StatusTooManyRequests:
		b.refused++
		retry := a.in.retry
		if !a.in.hasRetry && a.in.hasReset {
			retry = a.in.reset
		}
		if b.gate.refused(a.epoch, a.at, retry) {
			b.limit.refused(a.at, retry, a.in.limit, b.gate.strikes > 1)
		}
	case a.status >= 500:
		b.limit.accepted(a.sent)
		b.gate.stumbled(a.epoch, a.at, a.in.retry, a.probe)
	default:
		b.limit.accepted(a.sent)
		// Requests of the other workers count as foreign only beyond the limit of all of them.
		n, _ := b.limit.allowed()
		if pause := b.limit.observe(a.in, min(int(n), b.limit.rate.Limit-a.in.left)); pause > 0 {
			b.gate.extend(a.at.add(pause), usedUp)
		}
		b.gate.passed(a.epoch)
	}
}
