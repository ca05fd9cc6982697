package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// writeTo lets write fill the file named, or stdout where name is "". A file that is
// there keeps its content until the new one is whole, and its mode. A new file has the
// mode that the user's umask asks for.
func (a *app) writeTo(name string, write func(io.Writer) error) error {
	if name == "" {
		return write(a.out)
	}
	return replaceWith(name, 0o666&^a.umask, write)
}

// replaceFile replaces the content of a configuration file in one step, and keeps its
// mode. A symbolic link stays one. A file that was missing is readable by its owner only:
// it may hold secrets.
func replaceFile(name string, data []byte) error {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	return replaceWith(name, 0o600, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// replaceWith lets write fill a file beside name, and renames it to name when it is
// complete. It has the mode of the file that it replaces; mode where there is none.
func replaceWith(name string, mode fs.FileMode, write func(io.Writer) error) error {
	if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*") // mode 0600
	if err != nil {
		return hinted(fmt.Errorf("write %s: %w", name, pathCause(err)), "make the folder and let penstock write to it")
	}
	if err := errors.Join(write(f), f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(f.Name()))
	}
	return nil
}
