//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"
)

// What was committed since the last checkpoint stands in a log beside the file,
// which is replayed whenever the file is attached.
const (
	// A log longer than longLog is worked into the file when that is let go,
	// and one longer than finalLog when the destination is closed.
	longLog  = 8 << 20
	finalLog = 1 << 20

	// So is a shorter one once replays of it have come to longReplay bytes: what
	// they take goes by the commits in it more than by its length, and a log of
	// small commits may be replayed for longer than it took to write.
	longReplay = longLog
)

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
	if err := d.window.engine.write.exec(ctx, attachSQL(d.o.Path, "db", d.o, m)); err != nil {
		return errors.Join(cause, os.Rename(aside, log))
	}
	d.o.Log.Error("log of the database cannot be replayed and was moved aside; what it held is read again by the next run",
		"path", d.o.Path, "moved", aside, "error", cause)
	return nil
}

// checkpoint works the log into the file where it should not wait: it is long,
// or holds changes to tables. The commits in it are durable either way.
func (d *DB) checkpoint() error {
	long := int64(longLog)
	if d.window.closed {
		long = finalLog
	}
	if size := d.logSize(); !d.window.changed && size < long && (size == 0 || d.window.replayed < longReplay) {
		return nil
	}
	if err := d.step("checkpoint"); err != nil {
		return err
	}
	d.window.changed, d.window.replayed = false, 0
	return d.window.engine.write.exec(context.Background(), "CHECKPOINT db")
}

func (d *DB) logSize() int64 {
	info, err := os.Stat(d.o.Path + ".wal")
	if err != nil {
		return 0
	}
	return info.Size()
}
