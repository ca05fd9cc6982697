package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/penstock-data/penstock/state"
)

// recordAge is how long the learned limit is used after the last change of the record.
const recordAge = 24 * time.Hour

// errTooManyMembers says that the budget record has no room for another process.
var errTooManyMembers = fmt.Errorf("more than %d processes use this credential at once", mostMembers)

// errOtherRelease says that another release has replaced the file while this process was running.
var errOtherRelease = errors.New("another release of penstock now uses this credential")

// BudgetName returns the name of the file that counts an account's requests. It does not reveal the account,
// which is often a secret.
func BudgetName(account Secret) string {
	sum := sha256.Sum256([]byte("penstock budget\x00" + account.Reveal()))
	return hex.EncodeToString(sum[:12])
}

// Share connects the governor with all processes on this machine that share the account's file in folder dir.
// Together they keep the limit, stop when the server refuses one of them, and use what any of them has learned.
// A gate that the last process leaves closed stays closed, unless it was closed because the server failed.
// If a process dies, its requests still count for as long as the server may count them.
//
// If Share fails, the governor must not be used: processes that do not share a record would together exceed the
// limit. Call Share before the first request, and [Governor.Close] at the end.
func (g *Governor) Share(dir string, account Secret) error {
	file, err := state.OpenShared(filepath.Join(dir, BudgetName(account)))
	if err != nil {
		return fmt.Errorf("share the rate limit: %w", err)
	}
	g.mu.Lock()
	g.file, g.record = file, new(budgetRecord)
	g.mu.Unlock()
	if err := g.with(func(*budgetRecord, instant) bool { return true }); err != nil {
		return errors.Join(fmt.Errorf("share the rate limit: %w", err), file.Close())
	}
	return nil
}

// Close removes this governor from the shared record, or reports its last requests to the ledger. No request may be
// under way. A governor that is not shared need not be closed.
func (g *Governor) Close() error {
	if g.fleet != nil {
		return g.leaveFleet()
	}
	if g.file == nil {
		return nil
	}
	err := g.with(func(b *budgetRecord, now instant) bool {
		if m := b.member(g.id, now); m != nil {
			m.seen = 0
		}
		return true
	})
	return errors.Join(err, g.file.Close())
}

// How long to wait for a file that another process uses, and how soon to retry.
const (
	sharePatience   = 10 * time.Second
	firstSharePause = 20 * time.Microsecond
	mostSharePause  = time.Millisecond
)

// errFileHeld says that another process did not release the file in time. The cause may be that this process was
// suspended while it changed the record.
var errFileHeld = errors.New("another process holds the rate-limit file and does not respond")

// with runs f on the current record, exclusively. It stores the record if f reports a change, or if a sign of
// life is due.
//
// Errors come from the file and are final: a request that could not be recorded would be missing from the
// count. // Invariant 4
func (g *Governor) with(f func(b *budgetRecord, now instant) bool) error {
	if done, err := g.change(f); done {
		return err
	}
	pause := firstSharePause
	for begun := time.Now(); time.Since(begun) < sharePatience; pause = min(2*pause, mostSharePause) {
		time.Sleep(pause) // no lock is held
		if done, err := g.change(f); done {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.broken = errFileHeld
	return g.broken
}

// change is one try of with. done is false if another process has locked the file.
func (g *Governor) change(f func(b *budgetRecord, now instant) bool) (done bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file == nil {
		now := g.now()
		g.record.advance(now)
		m := g.record.member(g.id, now)
		m.seen = now
		f(g.record, now)
		m.unsent = g.unsent
		return true, nil
	}
	if g.broken != nil {
		return true, g.broken
	}
	var refused error
	done, err = g.file.Change(g.record.image(), func() (changed bool) {
		changed, refused = g.revise(f)
		return changed
	})
	g.broken = errors.Join(err, refused)
	return done || err != nil, g.broken
}

// revise runs f on the record that was read from the file.
func (g *Governor) revise(f func(b *budgetRecord, now instant) bool) (changed bool, err error) {
	if !g.joined.IsZero() && g.record.layout != recordLayout && !g.record.blank() {
		return false, errOtherRelease
	}
	joins := g.joined.IsZero()
	changed = g.restore()
	now := g.now()
	g.record.advance(now)
	if joins {
		changed = g.record.removeDead(now) || changed
	}
	m := g.record.member(g.id, now)
	if m == nil {
		return false, errTooManyMembers
	}
	changed = g.sign(m, now) || changed
	changed = f(g.record, now) || changed
	if changed {
		m.unsent = g.unsent
		g.record.sign(now)
	}
	return changed, nil
}

// advance advances the request window to now.
func (b *budgetRecord) advance(now instant) {
	_, window := b.limit.allowed()
	b.window.advance(now, window)
}

// sign records a sign of life if the last one is more than a second old.
func (g *Governor) sign(m *member, now instant) bool {
	switch {
	case !m.alive(now), m.unsent != g.unsent:
		g.lapses++ // another process may have considered this one dead
	case m.seen != now && now.sub(m.seen) < time.Second:
		return false
	}
	m.seen = now
	return true
}

// restore prepares the record that was read from the file. The file may be new, or damaged because a process was
// killed while it wrote. restore reports whether it changed the record.
func (g *Governor) restore() bool {
	b := g.record
	wall := time.Now()
	joined := !g.joined.IsZero()
	switch {
	case !b.whole():
		lost := joined || !b.blank()
		*b = newBudgetRecord(g.plan)
		g.join(wall, 0, joined)
		if lost {
			g.pause(b)
		}
		return true
	case joined:
		return g.syncClock(b, wall)
	}
	g.join(wall, b.ahead, false)
	now := g.now()
	if b.stamp > now.add(clockSlack) {
		g.turnedBack(b, now)
	}
	g.adopt(b, now)
	return true
}

// join sets the governor's clock by the record's.
func (g *Governor) join(wall time.Time, ahead time.Duration, joined bool) {
	if !joined {
		g.base, g.joined = wall, wall
		g.origin.Store(int64(instant(wall.UnixNano()).add(ahead)))
	}
}

// clockSlack is the largest difference between two clocks that are considered equal.
const clockSlack = time.Second

// syncClock handles a machine clock that was set, or that advanced while the machine was asleep. Members that joined
// before that use another time than members that joined after it. All members adopt the later time, and send no
// requests for as long as requests recorded under the other time may count. syncClock reports whether it changed the
// record.
func (g *Governor) syncClock(b *budgetRecord, wall time.Time) bool {
	own, theirs := g.now(), instant(wall.UnixNano()).add(b.ahead)
	switch behind := b.stamp.sub(own); {
	case behind > clockSlack:
		g.origin.Add(int64(max(behind, theirs.sub(own))))
	case own.sub(theirs).Abs() <= clockSlack:
		return false
	}
	g.pause(b)
	return true
}

// pause stops all requests for as long as the server may count requests that the record does not contain.
func (g *Governor) pause(b *budgetRecord) {
	_, window := b.limit.allowed()
	b.gate.extend(g.now().add(window+mostGuard), usedUp)
}

// turnedBack repairs a record whose last change is in the future because the clock was set back. Waits keep
// their length.
func (g *Governor) turnedBack(b *budgetRecord, now instant) {
	left := b.gate.until.sub(b.stamp)
	b.window, b.members, b.next = requestWindow{}, [mostMembers]member{}, 0
	b.gate.until, b.limit.windowEnds = 0, 0
	if left > 0 {
		b.gate.until = now.add(min(left, longestHint))
	}
	g.pause(b)
}

// adopt keeps the limit and the gate of the record if they still apply: if the record is recent and was made for the
// same configured limit.
func (g *Governor) adopt(b *budgetRecord, now instant) {
	c := &b.limit
	alone := !b.shared(g.id, now)
	mine := newLimitEstimate(g.plan.Rate, g.plan.Reserve)
	same := c.configured == mine.configured && c.reserve == mine.reserve
	if alone && (!same || now.sub(b.stamp) > recordAge) || !same && mine.tighter(c) {
		*c = mine
	}
	if alone && b.gate.reason == failing { // the server may have been repaired since
		b.gate = breaker{epoch: b.gate.epoch}
	}
	b.gate.until = min(b.gate.until, now.add(longestHint))
}
