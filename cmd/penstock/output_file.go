package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/penstock-data/penstock/cmd/internal/failure"
)

// writeTo calls write() with the named file, or with stdout if no file is named. An existing file keeps its mode, and
// keeps its content until the new content is complete. The mode of a new file depends on the user's umask.
func (a *app) writeTo(name string, write func(io.Writer) error) error {
	if name == "" {
		return write(a.out)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return failure.Usage("", "write %s: it is a folder; name a file", name)
	}
	return replaceWith(name, 0o666&^a.umask, write)
}

// makeFolder creates a folder for output if it does not exist. Its mode depends on the user's umask.
func (a *app) makeFolder(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o777&^a.umask)
	}
	if err != nil {
		return failure.Hinted(fmt.Errorf("create folder %s: %w", dir, failure.PathCause(err)), "name a folder in which penstock may write")
	}
	return nil
}

// replaceFile replaces the content of a configuration file atomically, and keeps the file's mode. If the file is a
// symbolic link, the link stays, and the file to which it points is replaced. Only the owner can read a new file,
// because it may contain secrets.
func replaceFile(name string, data []byte) error {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	return replaceWith(name, 0o600, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// replaceWith calls write() with a temporary file in the same folder as the named file. When the temporary file is
// complete, it gets the mode of the named file, and replaces the named file. If the named file does not exist yet, the
// temporary file gets the given mode.
func replaceWith(name string, mode fs.FileMode, write func(io.Writer) error) error {
	if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*") // mode 0600
	if err != nil {
		return failure.Hinted(fmt.Errorf("write %s: %w", name, failure.PathCause(err)), "create the folder and let penstock write to it")
	}
	if err := errors.Join(write(f), f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(f.Name()))
	}
	return nil
}
