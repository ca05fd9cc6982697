//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"
)

// Commits since the last checkpoint are in a log beside the file. The engine replays the log each time the file is
// attached.
const (
	// When the file is detached, a log longer than longLog is merged into the file. When the destination is closed, a
	// log longer than finalLog is merged.
	longLog  = 8 << 20
	finalLog = 1 << 20

	// When the file is detached, a shorter log is merged too, if the replays since the last checkpoint have read
	// longReplay bytes in total. Replaying a log of many small commits may take longer than writing it, because the
	// time depends on the number of commits more than on the length.
	longReplay = longLog
)

// unreadableLog reports whether the error means that the file's log is damaged. It returns false if the cause is only a
// lack of memory or disk space. If a log is cut off at the end, the engine reports no error, and replays the complete
// commits.
func unreadableLog(err error) bool {
	text := err.Error()
	for _, lack := range []string{"Out of Memory", "No space left", "INTERRUPT"} {
		if strings.Contains(text, lack) {
			return false
		}
	}
	return strings.Contains(text, "Failure while replaying WAL file")
}

// withoutLog opens a file whose log cannot be replayed. It moves the log aside, which returns the file to its last
// checkpoint. No data is lost: the rows and the cursors are then those of the last checkpoint, and the next run reads
// the later records again. If the file still cannot be opened, withoutLog restores the log and returns the cause.
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
	if err := d.window.engine.write.Exec(ctx, attachSQL(d.o, m)); err != nil {
		return errors.Join(cause, os.Rename(aside, log))
	}
	d.o.Log.Error("the log of the database could not be replayed and was moved aside; the next run reads the missing rows again",
		"path", d.o.Path, "moved", aside, "error", cause)
	return nil
}

// checkpoint merges the log into the file if the log is long, has been replayed often, or contains statements that
// create or alter tables. The commits in the log are durable in any case.
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
	return d.window.engine.write.Exec(context.Background(), "CHECKPOINT db")
}

func (d *DB) logSize() int64 {
	info, err := os.Stat(d.o.Path + ".wal")
	if err != nil {
		return 0
	}
	return info.Size()
}
