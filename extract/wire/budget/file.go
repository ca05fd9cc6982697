package budget

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/penstock-data/penstock/state"
)

// Name returns the name under which an account's record is stored. It does not reveal the account, which is often a
// secret.
func Name(account string) string {
	sum := sha256.Sum256([]byte("penstock budget\x00" + account))
	return hex.EncodeToString(sum[:12])
}

// ShareFile connects the governor with all processes on this machine that share the file called name in folder dir.
// Together they keep the limit, stop when the server refuses one of them, and use what any of them has learned.
// A gate that the last process leaves closed stays closed, unless it was closed because the server failed.
// If a process dies, its requests still count for as long as the server may count them.
//
// If ShareFile fails, the governor must not be used: processes that do not share a record would together exceed the
// limit. Call ShareFile before the first request, and [Governor.Close] at the end.
func (g *Governor) ShareFile(dir, name string) error {
	file, err := state.OpenShared(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("share the rate limit: %w", err)
	}
	g.mu.Lock()
	g.file = file
	g.mu.Unlock()
	if err := g.with(func(*record, instant) bool { return true }); err != nil {
		return errors.Join(fmt.Errorf("share the rate limit: %w", err), file.Close())
	}
	return nil
}

// Close removes this governor from the shared record, and reports its last requests. No request may be under way. A
// governor that is not shared need not be closed.
func (g *Governor) Close() error {
	if g.fleet != nil {
		return g.leaveFleet()
	}
	if g.file == nil {
		return nil
	}
	err := g.with(func(r *record, _ instant) bool {
		r.leave(g.id)
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

// waitForFile continues [Governor.with] while another process has locked the file.
func (g *Governor) waitForFile(f func(r *record, now instant) bool) error {
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

// changeFile is [Governor.change] for a record in a file. g.mu is held.
func (g *Governor) changeFile(f func(r *record, now instant) bool) (done bool, err error) {
	if g.broken != nil {
		return true, g.broken
	}
	var refused error
	done, err = g.file.Change(func(stored []byte) []byte {
		changed, err := g.restore(stored)
		if refused = err; err != nil {
			return nil
		}
		r, now := g.record, g.now()
		r.advance(now)
		changed = r.sign(g.id, now) || changed
		if changed = f(r, now) || changed; !changed {
			return nil
		}
		r.stamp, r.ahead = now, now.sub(instant(time.Now().UnixNano()))
		g.stored = r.store(g.stored[:0])
		return g.stored
	})
	g.broken = errors.Join(err, refused)
	return done || err != nil, g.broken
}

// restore reads the record and joins it. The file may be new, or damaged because a process was killed while it wrote.
// restore reports whether it changed the record.
func (g *Governor) restore(stored []byte) (changed bool, err error) {
	err = g.record.load(stored)
	wall, joined := time.Now(), g.joined
	switch {
	case joined && errors.Is(err, errOtherVersion):
		return false, err // another release of penstock uses this file now
	case joined && err == nil:
		return g.syncClock(g.record, wall), nil
	case err != nil:
		*g.record = newRecord(g.plan)
	}
	if !joined {
		g.base, g.joined = wall, true
		g.origin.Store(int64(instant(wall.UnixNano()).add(g.record.ahead)))
	}
	now := g.now()
	if g.record.stamp > now.add(clockSlack) {
		g.record.turnBack(now)
	}
	if err != nil && (joined || len(stored) > 0) {
		g.record.pause(now)
	}
	g.record.join(g.id, g.plan, now)
	return true, nil
}

// syncClock handles a machine clock that was set, or that advanced while the machine was asleep. Members that joined
// before that use another time than members that joined after it. All members adopt the later time, and send no
// requests for as long as requests recorded under the other time may count. syncClock reports whether it changed the
// record.
func (g *Governor) syncClock(r *record, wall time.Time) bool {
	own, theirs := g.now(), instant(wall.UnixNano()).add(r.ahead)
	switch behind := r.stamp.sub(own); {
	case behind > clockSlack:
		g.origin.Add(int64(max(behind, theirs.sub(own))))
	case own.sub(theirs).Abs() <= clockSlack:
		return false
	}
	r.pause(g.now())
	return true
}
