package budget

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/retry"
)

// Name returns the name under which an account's record is stored. The name is a hash, because the account is often a
// secret.
func Name(account string) string {
	sum := sha256.Sum256([]byte("penstock budget\x00" + account))
	return hex.EncodeToString(sum[:12])
}

// ShareFile connects the governor with all processes on this machine that share the named file in the given folder.
// Together they keep the limit. When the server refuses a request of one process, all processes wait. Each process uses
// what the others have learned.
//
// If a process dies, its requests still count for as long as the server may count them. A closed gate stays closed
// after the last process ends. But if the gate closed because the server failed, the next process opens it again.
//
// If ShareFile fails, do not use the governor: processes with separate records would exceed the limit together. Call
// ShareFile before the first request, and [Governor.Close] at the end.
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

// Close removes this governor from the shared record, and reports its last requests. All requests must have ended. A
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

// fileRetry says how long to wait for a file that another process has locked.
var fileRetry = retry.Policy{First: 20 * time.Microsecond, Longest: time.Millisecond, Total: 10 * time.Second}

// errFileHeld says that another process did not release the file in time. That process may be suspended.
var errFileHeld = errors.New("another process holds the rate-limit file and does not respond")

// waitForFile repeats [Governor.change] while another process has locked the file.
func (g *Governor) waitForFile(f func(r *record, now instant) bool) error {
	for tries := fileRetry.Begin(); tries.Again(context.Background()); { // no lock is held during the wait
		if done, err := g.change(f); done {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.broken = errFileHeld
	return g.broken
}

// changeFile is [Governor.change] for a record in a file. The caller holds g.mu.
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

// restore reads the record, and adds this governor to it. The file may be new, or damaged by a process that was
// killed while it wrote. restore reports whether it changed the record.
func (g *Governor) restore(stored []byte) (changed bool, err error) {
	err = g.record.load(stored)
	wall, joined := time.Now(), g.joined
	switch {
	case joined && errors.Is(err, errOtherVersion):
		return false, err // another release of penstock has written this file
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

// syncClock handles two cases: the machine's clock was set, or it advanced while the machine was asleep. Members that
// joined before such a jump use another time than members that joined after it. All members adopt the later time. They
// send no requests for as long as the server may count requests that were recorded with the other time. syncClock
// reports whether it changed the record.
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
