package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// move is a requested change of a cursor.
type move struct {
	key       state.Key
	was, next state.Cursor
}

// moved is the JSON line of one move.
type moved struct {
	Pipeline string `json:"pipeline"`
	Source   string `json:"source,omitempty"`
	Stream   string `json:"stream"`
	Was      string `json:"was"`
	Cursor   string `json:"cursor"`
	Backup   string `json:"backup"`
}

// moveCursors asks for confirmation, locks the pipelines so that they cannot run, and backs up all cursors of the
// destination. Then it changes each cursor that differs from the requested cursor, in separate commits.
// Invariants 2, 13
func moveCursors(ctx context.Context, a *app, d *open.Reader, moves []move, yes bool) error {
	var todo []move
	for _, m := range moves {
		var err error
		if m.was, err = d.Cursor(ctx, m.key); err != nil {
			return err
		}
		if m.was != m.next {
			todo = append(todo, m)
		}
	}
	if len(todo) == 0 {
		return a.say("nothing to change: the cursors already have these values\n")
	}
	if !yes {
		for _, m := range todo {
			fmt.Fprintf(a.err, "%s %s: %s -> %s\n", m.key.Pipeline, history.StreamName(m.key), shownCursor(m.was), shownCursor(m.next))
		}
	}
	backup, unlock, err := beginMoves(ctx, a, d, todo, yes, fmt.Sprintf("move %s in %s?", render.Plural(len(todo), "cursor"), d.Name))
	if err != nil {
		return err
	}
	defer unlock()
	for i, m := range todo {
		if err := commitMove(ctx, a, d, m, backup); err != nil {
			// Cause: a cursor could not be moved
			return failure.Hinted(err, fmt.Sprintf("before this error, %d of %s moved; `penstock state import %s` restores all cursors", i, render.Plural(len(todo), "cursor"), backup))
		}
	}
	return nil
}

// beginMoves asks for confirmation, locks the pipelines whose cursors are moved, and backs up the cursors. The caller
// must call unlock().
func beginMoves(ctx context.Context, a *app, d *open.Reader, todo []move, yes bool, question string) (backup string, unlock func(), err error) {
	if err := a.confirm(ctx, yes, question); err != nil {
		return "", nil, err
	}
	if unlock, err = lockAll(ctx, a, d, todo); err != nil {
		return "", nil, err
	}
	if backup, err = backUp(ctx, d); err != nil {
		err = fmt.Errorf("back up cursors: %w", err)
	} else {
		err = a.say("backup %s\n", backup)
	}
	if err != nil {
		unlock()
		return "", nil, err
	}
	return backup, unlock, nil
}

// lockAll takes the lock of every pipeline whose cursors are moved. A pipeline with several sources has a lock for each
// source. For such a pipeline, lockAll takes only the locks of the sources whose cursors are moved.
func lockAll(ctx context.Context, a *app, d *open.Reader, moves []move) (unlock func(), err error) {
	held := map[string]state.Lease{}
	unlock = func() {
		for _, l := range held {
			_ = l.Release()
		}
	}
	for _, m := range moves {
		key := m.key.Pipeline
		if p, _ := d.Conf.Pipeline(m.key.Pipeline); p.MultiSource {
			key = p.ForSource(cmp.Or(m.key.Source, d.Source)).Key()
		}
		if held[key] != nil {
			continue
		}
		l, err := open.LockPipeline(ctx, a.open.State(d.Conf), key)
		if err != nil {
			unlock()
			return nil, err
		}
		held[key] = l
	}
	return unlock, nil
}

// commitMove moves one cursor. It returns an error if the cursor has changed since it was read.
func commitMove(ctx context.Context, a *app, d *open.Reader, m move, backup string) error {
	now := a.open.State(d.Conf).Now
	tx, err := d.Begin(ctx, m.key, m.was, load.Pass{Run: runid.New(now()), Now: now})
	if err != nil {
		return fmt.Errorf("move cursor of %s: %w", m.key.Stream, err)
	}
	defer tx.Rollback()
	if err := tx.Commit(ctx, m.next); err != nil {
		return fmt.Errorf("move cursor of %s: %w", m.key.Stream, err)
	}
	if a.json {
		return render.NewEncoder(a.out).Encode(moved{m.key.Pipeline, m.key.Source, m.key.Stream, string(m.was), string(m.next), backup})
	}
	return a.say("%s %s: %s\n", m.key.Pipeline, history.StreamName(m.key), shownCursor(m.next))
}

// shownCursor formats a cursor for display.
func shownCursor(c state.Cursor) string {
	if c == "" {
		return "the beginning"
	}
	return render.Printable(string(c), false)
}

// say prints a message, unless --json is set.
func (a *app) say(format string, args ...any) error {
	if a.json {
		return nil
	}
	_, err := fmt.Fprintf(a.out, format, args...)
	return err
}

// backUp writes all cursors of the destination to a new file in the state folder, and returns the path of the file.
// The file is then durable.
func backUp(ctx context.Context, d *open.Reader) (path string, err error) {
	all, err := cursorsOf(ctx, d)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	if err := writeCursors(&text, all); err != nil {
		return "", err
	}
	folder := filepath.Join(cmp.Or(d.Conf.State.Dir, config.DefaultState), "backups")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	path = filepath.Join(folder, "cursors-"+d.Name+"-"+time.Now().UTC().Format("20060102T150405.000000Z")+".jsonl")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(text.Bytes())
	return path, errors.Join(err, f.Sync(), f.Close())
}
