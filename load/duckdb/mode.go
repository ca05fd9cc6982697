//go:build cgo && duckdb_arrow

package duckdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// fileMode is what a new file is made with: exactly this mode, or what the umask leaves
// of it.
type fileMode struct {
	mode  fs.FileMode
	exact bool
}

// newMode is the mode of a new file: mode where one is configured. Else others may read
// the file if the umask lets them, and may never write to it.
func newMode(mode fs.FileMode) fileMode {
	if mode != 0 {
		return fileMode{mode, true}
	}
	return fileMode{0o644, false}
}

// copyMode is the mode of a published copy. A copy that is there may have been given a
// mode by hand: it is kept, without the right of others to write.
func (d *DB) copyMode(path string) fileMode {
	if info, err := os.Stat(path); err == nil && d.o.Mode == 0 {
		return fileMode{info.Mode().Perm() &^ 0o022, true}
	}
	return newMode(d.o.Mode)
}

// permit gives the configured mode to the file and its log, which the engine makes as the
// umask says. Without one, others may not write to the log unless they may write to the
// file. Only the owner of a file can change its mode.
func (d *DB) permit() {
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
		d.o.Log.Warn("set the mode of the database", "error", err)
	}
}

// maxLinks is how many symbolic links may lead from one to the next.
const maxLinks = 40

// followed returns the absolute path of a file, without symbolic links in it. Where path is
// one, that is the file which it leads to, there or not: the engine is confined to the files of
// one name and writes its log beside the file itself. Whoever changes a link of a folder later
// does not move a database that is open.
func followed(path string) (string, error) {
	path, err := filepath.Abs(path)
	for range maxLinks {
		if err != nil {
			return "", err
		}
		var target string
		if target, err = os.Readlink(path); err != nil {
			return inFolder(path), nil // no link, or nothing there
		}
		if !filepath.IsAbs(target) {
			var dir string
			dir, err = filepath.EvalSymlinks(filepath.Dir(path)) // .. is relative to the folder itself
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return "", errors.Join(err, fmt.Errorf("%s: more than %d symbolic links", path, maxLinks))
}

// inFolder returns the path of a file without the symbolic links of its folder, as far as
// there is one.
func inFolder(path string) string {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return path // the first run makes the folder
	}
	return filepath.Join(dir, filepath.Base(path))
}
