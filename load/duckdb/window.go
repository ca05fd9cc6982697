//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/retry"
)

// window keeps the file attached to the engine while it is used, and for a moment longer. Often the next commit follows
// immediately, and attaching a file with many tables takes as long as a small commit.
type window struct {
	gate    chan struct{} // holds one token while the fields below are used
	engine  *engine       // nil after a fatal error, until the next use
	users   int
	waiting int // callers that wait until the users of a read-only file have finished, because they want to write
	open    mode
	since   time.Time // when the file was attached
	idle    *time.Timer
	changed bool // tables were created or altered since the last checkpoint
	closed  bool

	replayed int64 // how many bytes of logs the engine has read since the last checkpoint; it replays the log each time the file is attached
}

// mode is the purpose for which the file is open. Many processes can read a file at the same time, as long as no
// process has it open for writing. Queries open the file read-only. Other reads open it for writing if possible,
// because a commit often follows.
type mode int

const (
	detached mode = iota
	querying
	reading
	writing
)

const (
	// After a use, the file stays attached for idleTime. If the file was attached more than openTime ago, it is
	// detached at once. If several callers use the file at the same time, it stays attached until all of them have
	// finished. So readers in other processes wait for one commit or one survey at most, except during [Lend]. // Invariant 7
	idleTime = 50 * time.Millisecond
	openTime = 500 * time.Millisecond
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
	if w.users == 0 && w.open != detached {
		d.detach()
	}
	if w.engine == nil {
		return nil
	}
	e := w.engine
	w.engine = nil
	err := e.close()
	if w.open != detached { // a user is left; the engine has closed the file
		w.open = detached
		inUse.release(d.o.Path)
	}
	return err
}

// silentWait is how long acquire waits before it logs that it waits. Most processes release a file sooner.
const silentWait = time.Second

// acquire attaches the file until release is called. If another process has the file open, acquire waits up to
// Options.WaitLock. If the file is still open then, acquire returns [state.ErrLocked] (wrapped). Commits and reads of a run
// wait for the end of [Lend] without this limit: ctx and the time limits of the commands bound it. The limit of the wait
// for other processes begins then.
func (d *DB) acquire(ctx context.Context, m mode) (e *engine, release func(), err error) {
	// The waits are random, so that two waiting processes do not keep trying at the same time.
	policy := retry.Policy{First: 20 * time.Millisecond, Longest: time.Second, Jitter: 0.5, Total: d.o.WaitLock}
	began, reported, waits := time.Now(), false, false
	defer func() {
		if waits {
			d.wait(-1)
		}
	}()
	for tries := policy.Begin(); ; {
		e, err := d.tryAcquire(ctx, m)
		if errors.Is(err, errReadersLeft) && !waits {
			waits = true
			d.wait(1)
		}
		if err == nil || !locked(err) {
			return e, d.release, err
		}
		if errors.Is(err, errLent) && (m == writing || load.IsForRun(ctx)) { // the command may take longer than WaitLock
			if err := lent.wait(ctx, d.o.Path); err != nil {
				return nil, nil, err
			}
			tries, began = policy.Begin(), time.Now()
			continue
		}
		if !reported && time.Since(began) >= silentWait && !errors.Is(err, errInUse) {
			d.o.Log.Info("waiting for a file that another process has open", "path", d.o.Path, "process", holderOf(err), "at_most", d.o.WaitLock)
			reported = true
		}
		if tries.Again(ctx) {
			continue
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, fmt.Errorf("open %s: %w%s", d.o.Path, state.ErrLocked, holder(err))
	}
}

// wait adds n to the number of callers that wait for the users of a read-only file.
func (d *DB) wait(n int) {
	w := &d.window
	w.gate <- struct{}{}
	defer func() { <-w.gate }()
	w.waiting += n
}

func (d *DB) tryAcquire(ctx context.Context, m mode) (*engine, error) {
	w := &d.window
	switch {
	case d.o.ReadOnly && m == writing:
		return nil, fmt.Errorf("open %s: %w", d.o.Path, errReadOnly)
	case d.o.ReadOnly:
		m = querying
	}
	select {
	case w.gate <- struct{}{}:
		defer func() { <-w.gate }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if w.closed {
		return nil, errors.New("destination is closed")
	}
	if lent.has(d.o.Path) && (w.users == 0 || m == querying) { // a user of the file may need it once more, to finish
		return nil, errLent
	}
	if m == querying && w.waiting > 0 && w.open < writing { // otherwise queries that overlap would keep the file read-only // Invariant 15
		return nil, errWriterFirst
	}
	if w.open < m && w.open != detached {
		if w.users > 0 {
			return nil, errReadersLeft
		}
		d.detach()
	}
	if w.open == detached {
		if err := d.attach(ctx, m); err != nil {
			return nil, err
		}
	}
	if w.idle != nil {
		w.idle.Stop()
	}
	w.users++
	return w.engine, nil
}

func (d *DB) release() {
	w := &d.window
	w.gate <- struct{}{}
	defer func() { <-w.gate }()
	if w.users--; w.users > 0 || w.engine == nil { // nil: the destination was closed while it was in use
		return
	}
	if w.engine.broken || w.closed || time.Since(w.since) >= openTime {
		d.detach()
		return
	}
	w.idle = time.AfterFunc(idleTime, d.detachIdle)
}

// detachIdle detaches the file if it is still unused.
func (d *DB) detachIdle() {
	w := &d.window
	w.gate <- struct{}{}
	defer func() { <-w.gate }()
	if w.users == 0 && w.open != detached {
		d.detach()
	}
}

// attach opens the file. The caller holds the gate's token, and the file has no users.
func (d *DB) attach(ctx context.Context, m mode) error {
	if err := d.step("open"); err != nil {
		return err
	}
	if d.window.engine == nil {
		if err := d.window.start(ctx, d.o); err != nil {
			return err
		}
	}
	if !inUse.acquire(d.o.Path) {
		return errInUse
	}
	log := d.logSize()
	first := writing
	if m == querying {
		first = reading
	}
	err := d.attachAs(ctx, first)
	if err == nil && first == writing {
		d.window.replayed += log
	}
	if err != nil && m == reading && d.attachAs(ctx, reading) == nil {
		err, d.window.open = nil, reading // other processes read the file, or it is not writable
	}
	if err != nil {
		inUse.release(d.o.Path)
		return err
	}
	d.window.since = time.Now()
	d.window.engine.forgetObjects()
	return nil
}

func (d *DB) attachAs(ctx context.Context, m mode) error {
	if m == writing && !d.exists() {
		if err := d.create(ctx); err != nil {
			return fmt.Errorf("open %s: %w", d.o.Path, err)
		}
	}
	err := d.window.engine.write.Exec(ctx, attachSQL(d.o, m))
	if err != nil && !locked(err) {
		if strings.Contains(err.Error(), "not a valid DuckDB database file") {
			err = fmt.Errorf("%w: %w", load.ErrNotDatabase, err)
		}
		err = fmt.Errorf("open %s: %w", d.o.Path, err)
		if ctx.Err() == nil && unreadableLog(err) {
			err = d.withoutLog(ctx, m, err)
		}
	}
	if err == nil {
		d.window.open = m
	}
	if err == nil && m == writing {
		d.setModes()
	}
	return err
}

func attachSQL(o Options, m mode) string {
	q := "ATTACH " + literal(o.Path) + " AS db"
	switch {
	case m == reading:
		q += " (READ_ONLY)"
	default:
		q += fmt.Sprintf(" (STORAGE_VERSION %s, ROW_GROUP_SIZE %d)", literal(o.StorageVersion), RowGroup)
	}
	return q
}

// detach closes the file. The caller holds the gate's token, and the file has no users.
func (d *DB) detach() {
	w := &d.window
	if w.idle != nil {
		w.idle.Stop()
	}
	if !w.engine.broken && w.open == writing {
		if err := d.checkpoint(); err != nil {
			d.o.Log.Warn("checkpoint", "path", d.o.Path, "error", err)
		}
	}
	if !w.engine.broken {
		if err := w.engine.write.Exec(context.Background(), "DETACH db"); err != nil {
			w.engine.broken = true
		}
	}
	if w.open == writing {
		d.setModes() // for a log created while the file was open
	}
	if w.engine.broken {
		d.discard()
	}
	w.open = detached
	inUse.release(d.o.Path)
}

// discard closes an engine that no longer works. The engine held the keys of records that unfinished passes have found
// unchanged (carried keys). They are lost. The file is not affected.
func (d *DB) discard() {
	if err := d.window.engine.close(); err != nil {
		d.o.Log.Warn("close duckdb", "path", d.o.Path, "error", err)
	}
	d.window.engine = nil
	d.LoseCarried()
}

// paths is a set of files that this process has open.
type paths struct {
	mu   sync.Mutex
	open map[string]bool
}

// inUse is shared by all destinations of the process. The engine's file lock keeps other processes out, but not a
// second engine in the same process, which would corrupt the file.
var inUse = paths{open: map[string]bool{}}

func (p *paths) acquire(path string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[path] {
		return false
	}
	p.open[path] = true
	return true
}

func (p *paths) release(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, path)
}

// errInUse reports that another destination of this process has the file open.
var errInUse = errors.New("in use by this process")

var (
	// errReadersLeft reports that the file has users, and is open in a mode that is not enough.
	errReadersLeft = fmt.Errorf("%w: queries read it", errInUse)
	// errLent reports that another program has the file: see [Lend].
	errLent = fmt.Errorf("%w: a command of `after` uses it", errInUse)
	// errWriterFirst reports that a query must wait until another caller of this process has opened the file for writing.
	errWriterFirst = fmt.Errorf("%w: a commit waits for it", errInUse)
)

// errReadOnly reports a write to a file that Options.ReadOnly protects.
var errReadOnly = errors.New("opened only for reading")

// locked() reports whether the error means that another destination or another process has the file open.
func locked(err error) bool {
	if errors.Is(err, errInUse) {
		return true
	}
	e, ok := errors.AsType[*duckdb.Error](err)
	return ok && strings.Contains(e.Msg, "Could not set lock on file")
}

var holderName = regexp.MustCompile(`held in (.+? \(PID \d+\))`)

// holder returns a colon and the process that has the file open, or "" if the engine did not report the process.
func holder(err error) string {
	if errors.Is(err, errLent) {
		return ": a command of `after` uses it"
	}
	if errors.Is(err, errInUse) {
		return ": this process"
	}
	if name := holderOf(err); name != "" {
		return ": " + name
	}
	return ""
}

// holderOf returns the other process that has the file open, if the engine reported it: its program and its id.
func holderOf(err error) string {
	if m := holderName.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return ""
}
