package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// ErrExposed is returned if other users can access a secret or replace its file. For example, other users can write to
// the folder, other users can read the file, or the file is a symbolic link. When ErrExposed is returned, nothing was
// read or written.
var ErrExposed = errors.New("not safe for secrets")

const maxPrivate = 64 << 10

func readPrivate(path string) ([]byte, error) {
	info, err := inspect(path)
	if info == nil || err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read credential: %w", err)
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return nil, fmt.Errorf("read %s: %w: replaced while it was opened", path, ErrExposed)
	}
	return readSmall(f, path, maxPrivate)
}

// inspect checks the file at path without following symbolic links. It returns nil if the file does not exist.
func inspect(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("inspect: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is %w: it is not a regular file; remove it", path, ErrExposed)
	case accessible(info, 0o077):
		return nil, fmt.Errorf("%s is %w: other users can read it (mode %04o); run chmod 600 on it", path, ErrExposed, info.Mode().Perm())
	}
	return info, nil
}

// inspectFolder returns [ErrExposed], wrapped, if the state folder belongs to another user or if other users may
// write to it. Such users could replace any file in the folder.
func inspectFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("open state: %w", err)
	case !info.IsDir():
		return fmt.Errorf("open state: %s is not a folder", dir)
	}
	if owner, other := foreign(info); other {
		return fmt.Errorf("state folder %s is %w: it belongs to user %d, and this process runs as user %d. Run penstock as user %[3]d, chown the folder, or use a folder in it, such as %[5]s, which penstock creates (this also works on a Kubernetes volume)",
			dir, ErrExposed, owner, os.Geteuid(), filepath.Join(dir, "state"))
	}
	switch {
	case accessible(info, 0o002):
		return fmt.Errorf("state folder %s is %w: all users can write to it (mode %04o); run chmod 700 on it", dir, ErrExposed, info.Mode().Perm())
	case accessible(info, 0o020):
		return fmt.Errorf("state folder %s is %w: its group can write to it (mode %04o); run chmod 700 on it, and in Kubernetes set fsGroupChangePolicy: OnRootMismatch, so that the mode does not change back", dir, ErrExposed, info.Mode().Perm())
	}
	return nil
}

// OnlyOurs checks two conditions: the file or folder at path belongs to this process's user or to root, and no other
// user can write to it. If one of these conditions is not met, OnlyOurs returns [ErrExposed], wrapped. For a file
// system that is mounted read-only, it returns nil.
func OnlyOurs(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	owner, other := foreign(info)
	switch {
	case fixed(path):
	case other && owner != 0:
		return fmt.Errorf("%s is %w: it belongs to user %d, and this process runs as user %d; chown it to that user or to root", path, ErrExposed, owner, os.Geteuid())
	case accessible(info, 0o022):
		return fmt.Errorf("%s is %w: other users can write to it (mode %04o); run chmod go-w on it", path, ErrExposed, info.Mode().Perm())
	}
	return nil
}

// inspectMade is like [inspectFolder], but accepts a missing folder, because penstock creates missing folders safely.
func inspectMade(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return inspectFolder(dir)
}

func accessible(info fs.FileInfo, rights fs.FileMode) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&rights != 0
}

// writePrivate replaces the content of the file at path, completely or not at all. Only the owner can read the file,
// whatever the umask is. When writePrivate returns nil, the change is durable. The caller holds a lock. For tests,
// writePrivate calls the function step with the name of each step.
func writePrivate(path string, text []byte, step func(string)) error {
	if _, err := inspect(path); err != nil {
		return err
	}
	fresh := path + ".new" // a killed process may have left this file
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write credential: %w", err)
	}
	if err := writeNew(fresh, text, step); err != nil {
		return errors.Join(fmt.Errorf("write credential: %w", err), os.Remove(fresh))
	}
	if err := os.Rename(fresh, path); err != nil {
		return errors.Join(fmt.Errorf("write credential: %w", err), os.Remove(fresh))
	}
	step("renamed")
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write credential: %w", err)
	}
	step("durable")
	return nil
}

// removePrivate removes the file at path, and the temporary file that a killed process may have left beside it.
func removePrivate(path string, step func(string)) error {
	if _, err := inspect(path); err != nil {
		return err
	}
	gone := 0
	for _, file := range []string{path + ".new", path} {
		err := os.Remove(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			gone++
		case err != nil:
			return fmt.Errorf("remove credential: %w", err)
		}
	}
	if gone == 2 {
		return nil
	}
	step("removed")
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return fmt.Errorf("remove credential: %w", err)
	}
	step("durable")
	return nil
}

func writeNew(path string, text []byte, step func(string)) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	step("created")
	_, err = f.Write(text)
	step("written")
	if err == nil {
		err = f.Sync()
	}
	step("synced")
	return errors.Join(err, f.Close())
}

func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows cannot open folders
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
