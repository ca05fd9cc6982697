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

// writeTo calls write with the named file, or with stdout if name is "". An existing file keeps its content until the
// new content is complete. It also keeps its mode. The mode of a new file depends on the user's umask.
func (a *app) writeTo(name string, write func(io.Writer) error) error {
	if name == "" {
		return write(a.out)
	}
	return replaceWith(name, 0o666&^a.umask, write)
}

// replaceFile replaces the content of a configuration file atomically, and keeps its mode. If name is a symbolic
// link, the link stays, and the file that it points to is replaced. Only the owner can read a new file, because it
// may contain secrets.
func replaceFile(name string, data []byte) error {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	return replaceWith(name, 0o600, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// replaceWith calls write with a temporary file in the folder of name. When the temporary file is complete, it is
// renamed to name. It gets the mode of the file that it replaces, or the given mode if there is no such file.
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
