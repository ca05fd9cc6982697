package objects

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Disk makes files durable, and creates links. Tests replace its functions to make them fail.
type Disk struct {
	Mode fs.FileMode // exact mode of files; 0: the mode that the umask allows

	Sync    func(*os.File) error
	Link    func(oldname, newname string) error
	Symlink func(oldname, newname string) error
}

// Flush syncs a file. Its error is final: the kernel may have dropped the data that it could not write, and a second
// sync would then succeed. After an error, the caller must not use the file any more.
func (d *Disk) Flush(f *os.File) error {
	sync := d.Sync
	if sync == nil {
		sync = (*os.File).Sync
	}
	if err := sync(f); err != nil {
		return fmt.Errorf("sync %s: %w", f.Name(), err)
	}
	return nil
}

// FlushDir makes a folder's entries durable. Windows has no call for that, and needs none.
func (d *Disk) FlushDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Flush(f), f.Close())
}

// MakeAll creates a folder and its parents, and makes them durable.
func (d *Disk) MakeAll(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := d.MakeAll(parent); err != nil {
			return err
		}
	}
	if err := d.makeFolder(path); err != nil {
		return err
	}
	return d.FlushDir(parent)
}

// MakeFolders creates a folder and its parents.
func (d *Disk) MakeFolders(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := d.MakeFolders(parent); err != nil {
			return err
		}
	}
	return d.makeFolder(path)
}

// makeFolder creates a folder. Users who may read files of this mode may also enter the folder.
func (d *Disk) makeFolder(path string) error {
	mode := d.Mode | (d.Mode&0o444)>>2
	err := os.Mkdir(path, cmp.Or(mode, 0o755)) // the rights must not exceed those that Chmod sets below, because the process may end before Chmod
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err == nil && mode != 0 {
		err = os.Chmod(path, mode) // sets the exact mode, regardless of the umask
	}
	return err
}

// MakeFile creates a file. It returns an error if the file exists.
func (d *Disk) MakeFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, cmp.Or(d.Mode, 0o644)) // the rights must not exceed those that Chmod sets below, because a program that opens the file before Chmod could still read it afterwards
	if err != nil || d.Mode == 0 {
		return f, err
	}
	if err := f.Chmod(d.Mode); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return f, nil
}

// Place makes the file available under a second name: by a hard link, or by a copy if the file system has no hard
// links.
func (d *Disk) Place(from, to string) (copied bool, err error) {
	link := d.Link
	if link == nil {
		link = os.Link
	}
	err = link(from, to)
	if err == nil || !unlinkable(err) {
		return false, err
	}
	return true, d.copy(from, to)
}

// Point creates a symbolic link.
func (d *Disk) Point(to, link string) error {
	if d.Symlink != nil {
		return d.Symlink(to, link)
	}
	return os.Symlink(to, link)
}

func unlinkable(err error) bool {
	for _, e := range []syscall.Errno{syscall.EPERM, syscall.ENOTSUP, syscall.EXDEV, syscall.EMLINK, syscall.ENOSYS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (d *Disk) copy(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := d.MakeFile(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err == nil {
		err = d.Flush(dst)
	}
	return errors.Join(err, dst.Close())
}

// Write creates a durable file.
func (d *Disk) Write(path string, text []byte) error {
	f, err := d.MakeFile(path)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = d.Flush(f)
	}
	return errors.Join(err, f.Close())
}
