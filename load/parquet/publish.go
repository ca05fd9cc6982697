package parquet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// commit makes rows, tables and cursor durable in one step. // Invariants 1, 2
func (x *tx) commit(ctx context.Context, next state.Cursor) error {
	x.next.Cursor, x.next.Run, x.next.At = string(next), x.of.Run, time.Now().UTC().Truncate(time.Microsecond)
	if err := x.lake.step("state"); err != nil {
		return err
	}
	idle, err := x.idle()
	if err != nil {
		return err
	}
	steps := []func() error{ctx.Err, x.move}
	if !idle {
		steps = x.generation(ctx)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	x.over = true
	x.remember()
	x.folder.keys.prune(x.next)
	if idle {
		err = os.RemoveAll(x.work) // of what was written, nothing was wanted
	} else {
		x.lake.collect(x.folder)
	}
	return errors.Join(err, x.lake.step("committed"), x.end())
}

// generation are the steps that make the next generation, and make it current.
func (x *tx) generation(ctx context.Context) []func() error {
	return []func() error{
		func() error { return x.compact(ctx) },
		func() error { return x.writeOwn(x.next.Cursor) },
		x.writeEmpty,
		func() error { return x.lake.step("link") },
		ctx.Err,
		x.assemble,
		func() error { return x.lake.step("precommit") },
		ctx.Err,
		x.publish,
	}
}

// assemble completes the folder of the next generation: the files of the last
// one that still stand, and the manifest.
func (x *tx) assemble() error {
	folders := map[string]bool{}
	for _, t := range x.next.Tables {
		for _, f := range x.next.files(t) {
			to := filepath.Join(x.work, t.Folder, f.Name)
			folders[filepath.Dir(to)] = true
			folders[filepath.Join(x.work, t.Folder)] = true
			if f.path() == to {
				continue
			}
			if err := x.keepFile(f.path(), to); err != nil {
				return err
			}
		}
	}
	if err := x.sweepWork(); err != nil {
		return err
	}
	for dir := range folders {
		if err := x.lake.disk.flushDir(dir); err != nil {
			return err
		}
	}
	x.outdate()
	text, err := json.Marshal(x.next)
	if err != nil {
		return err
	}
	if err := x.lake.step("manifest"); err != nil {
		return err
	}
	if err := x.lake.disk.write(filepath.Join(x.work, manifestName), append(text, '\n')); err != nil {
		return err
	}
	return x.lake.disk.flushDir(x.work)
}

func (x *tx) keepFile(from, to string) error {
	err := os.MkdirAll(filepath.Dir(to), 0o755)
	if err != nil {
		return err
	}
	copied, err := x.lake.disk.place(from, to)
	if gone(err) {
		return &load.ForeignChange{Table: x.key.Stream, Diff: []string{fmt.Sprintf("the file %s is gone", from)}}
	}
	if copied {
		x.lake.copies.Do(func() {
			x.lake.o.Log.Warn("the file system has no hard links: each commit copies all files of its stream", "folder", x.folder.path)
		})
	}
	return err
}

// sweepWork removes files which this transaction has written and written anew
// since.
func (x *tx) sweepWork() error {
	wanted := map[string]bool{}
	for _, t := range x.next.Tables {
		for _, f := range x.next.files(t) {
			wanted[filepath.Join(x.work, t.Folder, f.Name)] = true
		}
	}
	return filepath.WalkDir(x.work, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || wanted[path] {
			return err
		}
		return os.Remove(path)
	})
}

// publish makes the folder the next generation, and the next generation the
// current one. The lock is still held, and has been since the fence was
// checked: whoever else could move the link in between waits for this process
// to go on, or to die. // Invariant 13
func (x *tx) publish() error {
	gen := genName(x.next.Sequence)
	if err := os.Rename(x.work, filepath.Join(x.folder.path, gen)); err != nil {
		return err
	}
	x.work = filepath.Join(x.folder.path, gen)
	if err := x.lake.disk.flushDir(x.folder.path); err != nil {
		return err
	}
	if err := x.lake.step("publish"); err != nil {
		return err
	}
	link := filepath.Join(x.folder.path, tmpPrefix+randomName())
	if err := x.lake.disk.point(gen, link); err != nil {
		return err
	}
	if err := os.Rename(link, filepath.Join(x.folder.path, current)); err != nil {
		return errors.Join(err, os.Remove(link))
	}
	x.work = "" // it is everyone's now
	return x.lake.disk.flushDir(x.folder.path)
}

// outdate takes the generations that nobody has to find any more out of the
// next one's manifest. Who has opened one of their files can still read it.
func (x *tx) outdate() {
	m := x.next
	all := append(slices.Clone(m.Kept), generation{Sequence: m.Sequence, At: m.At})
	n := 0
	for n+x.lake.o.Keep < len(all) && m.At.Sub(all[n+1].At) >= x.lake.o.KeepFor {
		n++
	}
	m.Kept = m.Kept[n:]
}

// collect removes the generations that the manifest no longer lists. It is not
// part of the commit: what goes wrong is tried again by the next one.
func (l *Lake) collect(f *folder) {
	if err := l.recover(f); err != nil {
		l.o.Log.Warn("outdated generations cannot be removed", "folder", f.path, "error", err)
	}
}
