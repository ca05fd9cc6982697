package parquet

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

// disk makes files durable, and creates links. Tests replace its functions to make them fail.
type disk struct {
	mode fs.FileMode // exact mode of files; 0: the mode that the umask allows

	sync    func(*os.File) error
	link    func(oldname, newname string) error
	symlink func(oldname, newname string) error
}

// flush syncs a file. Its error is final: the kernel may have dropped the data that it could not write, and a second
// sync would then succeed. After an error, the caller must not use the file any more.
func (d *disk) flush(f *os.File) error {
	sync := d.sync
	if sync == nil {
		sync = (*os.File).Sync
	}
	if err := sync(f); err != nil {
		return fmt.Errorf("sync %s: %w", f.Name(), err)
	}
	return nil
}

// flushDir makes a folder's entries durable. Windows has no call for that, and needs none.
func (d *disk) flushDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.flush(f), f.Close())
}

func (d *disk) makeAll(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := d.makeAll(parent); err != nil {
			return err
		}
	}
	if err := d.makeFolder(path); err != nil {
		return err
	}
	return d.flushDir(parent)
}

func (d *disk) makeFolders(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := d.makeFolders(parent); err != nil {
			return err
		}
	}
	return d.makeFolder(path)
}

// makeFolder creates a folder. Users who may read files of this mode may also enter the folder.
func (d *disk) makeFolder(path string) error {
	mode := d.mode | (d.mode&0o444)>>2
	err := os.Mkdir(path, cmp.Or(mode, 0o755)) // never with more rights, even if the process ends before Chmod
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err == nil && mode != 0 {
		err = os.Chmod(path, mode) // regardless of the umask
	}
	return err
}

func (d *disk) makeFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, cmp.Or(d.mode, 0o644)) // never with more rights: a program that opens the file before Chmod could read it later
	if err != nil || d.mode == 0 {
		return f, err
	}
	if err := f.Chmod(d.mode); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return f, nil
}

func (d *disk) place(from, to string) (copied bool, err error) {
	link := d.link
	if link == nil {
		link = os.Link
	}
	err = link(from, to)
	if err == nil || !unlinkable(err) {
		return false, err
	}
	return true, d.copy(from, to)
}

func (d *disk) point(to, link string) error {
	if d.symlink != nil {
		return d.symlink(to, link)
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

func (d *disk) copy(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := d.makeFile(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err == nil {
		err = d.flush(dst)
	}
	return errors.Join(err, dst.Close())
}

func (d *disk) write(path string, text []byte) error {
	f, err := d.makeFile(path)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = d.flush(f)
	}
	return errors.Join(err, f.Close())
}
