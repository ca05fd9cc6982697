//go:build cgo && duckdb_arrow

package duckdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// fileMode is the mode of a new file. If exact is false, the umask applies to it.
type fileMode struct {
	mode  fs.FileMode
	exact bool
}

// newMode returns the configured mode for a new file. If no mode is configured, others may read the file if the umask
// allows it, and may never write to the file.
func newMode(mode fs.FileMode) fileMode {
	if mode != 0 {
		return fileMode{mode, true}
	}
	return fileMode{0o644, false}
}

// copyMode returns the mode for a published copy. If no mode is configured, and an earlier copy exists, copyMode
// returns the mode of the earlier copy, which may have been set by hand. Group and others then never get the right to
// write.
func (d *DB) copyMode(path string) fileMode {
	if info, err := os.Stat(path); err == nil && d.o.Mode == 0 {
		return fileMode{info.Mode().Perm() &^ 0o022, true}
	}
	return newMode(d.o.Mode)
}

// setModes sets the configured mode on the file and its log, because the engine creates both with a mode that depends
// on the umask. If no mode is configured, group and others lose the right to write to the log, except those who have
// the right to write to the file. setModes works only if this process owns the files.
func (d *DB) setModes() {
	file, err := os.Stat(d.o.Path)
	if err != nil {
		return
	}
	log, err := os.Stat(d.o.Path + ".wal")
	want := d.o.Mode
	if want != 0 {
		d.chmod(d.o.Path, file, want)
	} else if err == nil {
		want = log.Mode().Perm() &^ (0o022 &^ file.Mode().Perm())
	}
	if err == nil {
		d.chmod(d.o.Path+".wal", log, want)
	}
}

func (d *DB) chmod(path string, info fs.FileInfo, mode fs.FileMode) {
	if info.Mode().Perm() == mode {
		return
	}
	if err := os.Chmod(path, mode); err != nil {
		d.o.Log.Warn("cannot set the mode of the database", "error", err)
	}
}

// maxLinks limits the length of a chain of symbolic links.
const maxLinks = 40

// resolvePath returns the absolute path of a file with all symbolic links resolved, even if the target does not exist.
// The engine needs this path because its settings allow it to open only files with this path, and it writes its log
// beside the real file. A third reason: if a folder in the path is a link, and the link is changed while the database
// is open, the database stays at the old path.
func resolvePath(path string) (string, error) {
	path, err := filepath.Abs(path)
	for range maxLinks {
		if err != nil {
			return "", err
		}
		var target string
		if target, err = os.Readlink(path); err != nil {
			return inFolder(path), nil // no link, or no such file
		}
		if !filepath.IsAbs(target) {
			var dir string
			dir, err = filepath.EvalSymlinks(filepath.Dir(path)) // .. is relative to the real folder
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return "", errors.Join(err, fmt.Errorf("%s: more than %d symbolic links", path, maxLinks))
}

// inFolder resolves the symbolic links in a file's folder, if the folder exists.
func inFolder(path string) string {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return path // the first run creates the folder
	}
	return filepath.Join(dir, filepath.Base(path))
}
