//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"time"

	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/penstock-data/penstock/state"
)

// window is the time in which the file is attached to the engine: while
// somebody holds it, and for a moment longer, as commits come in bursts and
// attaching a file of many tables takes as long as a small commit.
type window struct {
	gate     chan struct{} // holds one token while the fields below are used
	engine   *engine       // nil after a fatal error, until the next use
	holds    int
	attached bool
	since    time.Time // when it was attached
	idle     *time.Timer
	changed  bool // tables were made or altered since the last checkpoint
	closed   bool
}

const (
	// The file is let go when nobody has used it for idleTime, and after
	// openTime as soon as nobody uses it: others are shut out no longer than
	// that, or than one commit takes. // Invariant 7
	idleTime = 50 * time.Millisecond
	openTime = 500 * time.Millisecond

	minWait = 20 * time.Millisecond // between two attempts to open a locked file
	maxWait = time.Second

	// A log longer than this is worked into the file after a commit, and one
	// longer than the smaller when the destination is closed. Replaying the
	// log is part of every opening of the file.
	longLog  = 8 << 20
	finalLog = 1 << 20
)

func (w *window) start(ctx context.Context, o Options) (err error) {
	w.engine, err = newEngine(ctx, o)
	return err
}

func (d *DB) stop() error {
	w := &d.window
	w.gate <- struct{}{}
	defer func() { <-w.gate }()
	w.closed = true
	if w.engine == nil {
		return nil
	}
	if w.holds == 0 && w.attached {
		d.detach()
	}
	if w.engine == nil {
		return nil
	}
	e := w.engine
	w.engine = nil
	return e.close()
}

// hold attaches the file, waiting a bounded time for others to let go of it,
// until release is called.
func (d *DB) hold(ctx context.Context, m mode) (e *engine, release func(), err error) {
	deadline := time.Now().Add(d.o.WaitLock)
	for wait := minWait; ; wait = min(2*wait, maxWait) {
		e, err := d.tryHold(ctx, m)
		if err == nil || !locked(err) {
			return e, d.release, err
		}
		if time.Now().After(deadline) {
			return nil, nil, fmt.Errorf("open %s: %w%s", d.o.Path, state.ErrLocked, holder(err))
		}
		select {
		case <-time.After(wait/2 + rand.N(wait/2)): // jitter, lest two wait in step
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// errLooking says that this process has the file open for a look.
var errLooking = errors.New("a query of this process")

func (d *DB) tryHold(ctx context.Context, m mode) (*engine, error) {
	w := &d.window
	select {
	case w.gate <- struct{}{}:
		defer func() { <-w.gate }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case w.closed:
		return nil, errors.New("destination is closed")
	case w.holds == 0:
		if err := d.attach(ctx, m); err != nil {
			return nil, err
		}
		w.mode = m
	case w.mode == looking && m == writing:
		return nil, errLooking
	}
	w.holds++
	return w.engine, nil
}

func (d *DB) release() {
	w := &d.window
	w.gate <- struct{}{}
	defer func() { <-w.gate }()
	if w.holds--; w.holds > 0 {
		return
	}
	if w.engine.broken || w.closed || time.Since(w.since) >= openTime {
		d.detach()
		return
	}
	if w.idle != nil {
		w.idle.Stop()
	}
	w.idle = time.AfterFunc(idleTime, d.detachIdle)
}

// detachIdle lets go of a file that nobody has taken up again.
func (d *DB) detachIdle() {
	w := &d.window
	w.gate <- struct{}{}
	defer func() { <-w.gate }()
	if w.holds == 0 && w.attached {
		d.detach()
	}
}

// detach lets go of the file. It is called with the gate taken and nobody
// holding.
func (d *DB) detach() {
	w := &d.window
	w.attached = false
	if w.idle != nil {
		w.idle.Stop()
	}
	if !w.engine.broken {
		if err := d.checkpoint(); err != nil {
			d.o.Log.Warn("checkpoint", "path", d.o.Path, "error", err)
		}
	}
	if !w.engine.broken {
		if err := w.engine.write.exec(context.Background(), "DETACH db"); err != nil {
			w.engine.broken = true
		}
	}
	if w.engine.broken {
		d.discard()
	}
}

// discard gives up an engine that no longer works. What it remembered of passes
// under way is lost with it; the file is not.
func (d *DB) discard() {
	if err := d.window.engine.close(); err != nil {
		d.o.Log.Warn("close duckdb", "path", d.o.Path, "error", err)
	}
	d.window.engine = nil
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.passes {
		p.lost, p.carried = true, nil
	}
}

// attach opens the file. It is called with the gate taken and nobody holding.
func (d *DB) attach(ctx context.Context, m mode) error {
	if err := d.step("open"); err != nil {
		return err
	}
	if d.window.engine == nil {
		if err := d.window.start(ctx, d.o); err != nil {
			return err
		}
	}
	err := d.window.engine.write.exec(ctx, attachSQL(d.o, m))
	if err == nil || locked(err) {
		return err
	}
	err = fmt.Errorf("open %s: %w", d.o.Path, err)
	if ctx.Err() == nil && unreadableLog(err) {
		return d.withoutLog(ctx, m, err)
	}
	return err
}

func attachSQL(o Options, m mode) string {
	q := "ATTACH " + literal(o.Path) + " AS db"
	switch {
	case m == looking:
		q += " (READ_ONLY)"
	case o.StorageVersion != "":
		q += " (STORAGE_VERSION " + literal(o.StorageVersion) + ")"
	}
	return q
}

// unreadableLog reports whether the file's log is damaged, as opposed to a
// machine that lacks the room to replay it. A log that merely breaks off is no
// error to the engine: it replays what is whole.
func unreadableLog(err error) bool {
	text := err.Error()
	for _, lack := range []string{"Out of Memory", "No space left", "INTERRUPT"} {
		if strings.Contains(text, lack) {
			return false
		}
	}
	return strings.Contains(text, "Failure while replaying WAL file")
}

// withoutLog opens a file whose log cannot be replayed: the log is moved aside
// and the file stands as of its last checkpoint. Nothing is lost by it, as rows
// and cursors go back together and the next run reads the rest again. Where
// that does not help either, all is as before and the cause is returned.
func (d *DB) withoutLog(ctx context.Context, m mode, cause error) error {
	log := d.o.Path + ".wal"
	if info, err := os.Stat(log); err != nil || info.Size() == 0 {
		return cause
	}
	aside := log + ".unreadable-" + time.Now().UTC().Format("20060102T150405.000000")
	if err := os.Rename(log, aside); err != nil {
		return errors.Join(cause, err)
	}
	if d.window.engine.broken {
		d.discard()
		if err := d.window.start(ctx, d.o); err != nil {
			return errors.Join(cause, err)
		}
	}
	if err := d.window.engine.write.exec(ctx, attachSQL(d.o, m)); err != nil {
		return errors.Join(cause, os.Rename(aside, log))
	}
	d.o.Log.Error("log of the database cannot be replayed and was moved aside; what it held is read again by the next run",
		"path", d.o.Path, "moved", aside, "error", cause)
	return nil
}

// locked reports whether somebody else has the file open.
func locked(err error) bool {
	if errors.Is(err, errLooking) {
		return true
	}
	e, ok := errors.AsType[*duckdb.Error](err)
	return ok && strings.Contains(e.Msg, "Could not set lock on file")
}

var holderName = regexp.MustCompile(`held in (.+? \(PID \d+\))`)

// holder says who has the file open, where the engine could tell.
func holder(err error) string {
	if m := holderName.FindStringSubmatch(err.Error()); m != nil {
		return ": " + m[1]
	}
	if errors.Is(err, errLooking) {
		return ": " + errLooking.Error()
	}
	return ""
}

// missing reports whether a statement failed because a table is not there.
func missing(err error) bool {
	e, ok := errors.AsType[*duckdb.Error](err)
	return ok && e.Type == duckdb.ErrorTypeCatalog
}

// checkpoint works the log into the file where it should not wait: it is long,
// or holds changes to tables. The commits in it are durable either way.
func (d *DB) checkpoint() error {
	long := int64(longLog)
	if d.window.closed {
		long = finalLog
	}
	if !d.window.changed && d.logSize() < long {
		return nil
	}
	if err := d.step("checkpoint"); err != nil {
		return err
	}
	d.window.changed = false
	return d.window.engine.write.exec(context.Background(), "CHECKPOINT db")
}

func (d *DB) logSize() int64 {
	info, err := os.Stat(d.o.Path + ".wal")
	if err != nil {
		return 0
	}
	return info.Size()
}
