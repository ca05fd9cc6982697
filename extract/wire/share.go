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

// recordAge is how long what a budget record has learned about a server is believed after
// the last request.
const recordAge = 24 * time.Hour

// errCrowded says that more processes use a credential than a budget record has room for.
var errCrowded = fmt.Errorf("more than %d processes use this credential at once", mostMembers)

// errRelease says that the file was taken over in mid-run.
var errRelease = errors.New("another release of penstock has begun to use this credential")

// BookName is the name of the file in which the requests made with an account
// are counted. It tells nothing of the account, which is a secret more often than
// not.
func BookName(account Secret) string {
	sum := sha256.Sum256([]byte("penstock budget\x00" + account.Reveal()))
	return hex.EncodeToString(sum[:12])
}

// Share makes the governor one with those of all processes on this machine that
// share the file named for the account in folder dir: together they keep the
// limit, close when the server refuses one of them, and go by what any of them
// has learned. A gate that was closed when the last process ended is still
// closed. Requests of a process that dies count for as long as the server may
// count them.
//
// Where the file cannot be used the governor must not be: two processes that do
// not know of each other would spend the budget twice. Share is called before the
// first request, and [Governor.Close] in the end.
func (g *Governor) Share(dir string, account Secret) error {
	file, err := state.OpenShared(filepath.Join(dir, BookName(account)))
	if err != nil {
		return fmt.Errorf("share the budget of requests: %w", err)
	}
	g.mu.Lock()
	g.file, g.book = file, new(budgetRecord)
	g.mu.Unlock()
	if err := g.with(func(*budgetRecord, instant) bool { return true }); err != nil {
		return errors.Join(fmt.Errorf("share the budget of requests: %w", err), file.Close())
	}
	return nil
}

// Close leaves the others alone with the budget. No request may be under way.
// A governor that shares nothing need not be closed.
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

// How long another process may be about the file, and how soon to look again.
const (
	sharePatience   = 10 * time.Second
	firstSharePause = 20 * time.Microsecond
	mostSharePause  = time.Millisecond
)

// errStopped says that a process was stopped, or the machine has come to a
// standstill, in the microseconds that it takes to change the budget record.
var errStopped = errors.New("a process that has the file of the budget does not go on")

// with works on the budget record as it stands now, alone. It is stored if f reports a
// change, or if it is time for a sign of life.
//
// An error is of the file, and final: what could not be noted would be missing
// from the count. // Invariant 4
func (g *Governor) with(f func(b *budgetRecord, now instant) bool) error {
	if done, err := g.change(f); done {
		return err
	}
	pause := firstSharePause
	for begun := time.Now(); time.Since(begun) < sharePatience; pause = min(2*pause, mostSharePause) {
		time.Sleep(pause) // with no lock held
		if done, err := g.change(f); done {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.broken = errStopped
	return g.broken
}

// change is with, unless another process is about the file.
func (g *Governor) change(f func(b *budgetRecord, now instant) bool) (done bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file == nil {
		now := g.now()
		g.book.turn(now)
		m := g.book.member(g.id, now)
		m.seen = now
		f(g.book, now)
		m.unsent = g.unsent
		return true, nil
	}
	if g.broken != nil {
		return true, g.broken
	}
	var refused error
	done, err = g.file.Change(g.book.image(), func() (changed bool) {
		changed, refused = g.revise(f)
		return changed
	})
	g.broken = errors.Join(err, refused)
	return done || err != nil, g.broken
}

// revise has f work on the budget record as it was read.
func (g *Governor) revise(f func(b *budgetRecord, now instant) bool) (changed bool, err error) {
	if !g.joined.IsZero() && g.book.layout != recordLayout && !g.book.blank() {
		return false, errRelease
	}
	joins := g.joined.IsZero()
	changed = g.restore()
	now := g.now()
	g.book.turn(now)
	if joins {
		changed = g.book.bury(now) || changed
	}
	m := g.book.member(g.id, now)
	if m == nil {
		return false, errCrowded
	}
	changed = g.sign(m, now) || changed
	changed = f(g.book, now) || changed
	if changed {
		m.unsent = g.unsent
		g.book.sign(now)
	}
	return changed, nil
}

// turn moves the ledger on to now.
func (b *budgetRecord) turn(now instant) {
	_, window := b.ceiling.allowed()
	b.ledger.turn(now, window)
}

// sign gives a sign of life, if the last one is a while ago.
func (g *Governor) sign(m *member, now instant) bool {
	switch {
	case !m.alive(now), m.unsent != g.unsent:
		g.lapses++ // somebody may have gone by that
	case m.seen != now && now.sub(m.seen) < time.Second:
		return false
	}
	m.seen = now
	return true
}

// restore makes sense of what the file holds: a budget record, nothing yet, or what a
// process that was killed while it wrote has left. It reports whether there was
// anything to mend.
func (g *Governor) restore() bool {
	b := g.book
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
		return g.agree(b, wall)
	}
	g.join(wall, b.ahead, false)
	now := g.now()
	if b.stamp > now.add(clockSlack) {
		g.turnedBack(b, now)
	}
	g.adopt(b, now)
	return true
}

// join sets the governor's clock by that of the budget record.
func (g *Governor) join(wall time.Time, ahead time.Duration, joined bool) {
	if !joined {
		g.base, g.origin, g.joined = wall, instant(wall.UnixNano()).add(ahead), wall
	}
}

// clockSlack is how far two clocks may be apart and still be taken for one.
const clockSlack = time.Second

// agree makes up for a clock of the machine that was set, or ran on while the
// machine slept, before the last member to look at the budget record could tell: whoever
// has joined since goes by another time. All go by the later of them, and send
// nothing for as long as requests may count that were noted by the other.
func (g *Governor) agree(b *budgetRecord, wall time.Time) bool {
	own, theirs := g.now(), instant(wall.UnixNano()).add(b.ahead)
	switch behind := b.stamp.sub(own); {
	case behind > clockSlack:
		g.origin = g.origin.add(max(behind, theirs.sub(own)))
	case own.sub(theirs).Abs() <= clockSlack:
		return false
	}
	g.pause(b)
	return true
}

// pause keeps everyone from sending for as long as requests may count that the
// budget record knows nothing of.
func (g *Governor) pause(b *budgetRecord) {
	_, window := b.ceiling.allowed()
	b.gate.extend(g.now().add(window+mostGuard), usedUp)
}

// turnedBack makes a budget record usable whose last change lies in the future: the clock
// was put back since. Waits last as long as they did then.
func (g *Governor) turnedBack(b *budgetRecord, now instant) {
	left := b.gate.until.sub(b.stamp)
	b.ledger, b.members, b.next = requestWindow{}, [mostMembers]member{}, 0
	b.gate.until, b.ceiling.windowEnds = 0, 0
	if left > 0 {
		b.gate.until = now.add(min(left, longestHint))
	}
	g.pause(b)
}

// adopt goes by what the budget record says, as far as it still holds and is about the
// same limit.
func (g *Governor) adopt(b *budgetRecord, now instant) {
	c := &b.ceiling
	alone := !b.shared(g.id, now)
	mine := newCeiling(g.plan.Rate, g.plan.Reserve)
	same := c.asked == mine.asked && c.reserve == mine.reserve
	if alone && (!same || now.sub(b.stamp) > recordAge) || !same && mine.tighter(c) {
		*c = mine
	}
	if alone && b.gate.reason == failing { // somebody may have mended it, and looks now
		b.gate = breaker{epoch: b.gate.epoch}
	}
	b.gate.until = min(b.gate.until, now.add(longestHint))
}
