package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Backup is the manifest of a copy of a state folder.
type Backup struct {
	Made  time.Time      `json:"made_at"`
	Files []BackedUpFile `json:"files"`
}

// BackedUpFile is one file of a backup.
type BackedUpFile struct {
	Name   string `json:"name"` // relative to the folder, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Errors of backups.
var (
	// ErrOccupied is returned if the folder for a backup or a restored state is not empty.
	ErrOccupied = errors.New("the folder is not empty")
	// ErrDamaged is returned if a backup does not match its manifest.
	ErrDamaged = errors.New("the backup is damaged")
)

const (
	manifestName = "backup.json"
	budgetFolder = "budget" // not copied: it has the request budgets, which soon become outdated
)

// MakeBackup copies the state folder dir to the folder target, which must be empty or missing. Processes may use the
// state folder meanwhile. The copy of a database has the content of one moment. Each other file is copied as a whole.
// The manifest is written last, so a copy without a manifest is incomplete. When MakeBackup returns, the copy is
// durable.
//
// A backup contains the secrets of the folder. Only its owner can read it.
func MakeBackup(ctx context.Context, dir, target string) (Backup, error) {
	b := Backup{Made: time.Now().UTC().Truncate(time.Second), Files: []BackedUpFile{}}
	if err := requireEmpty(target); err != nil {
		return b, fmt.Errorf("back up to %s: %w", target, err)
	}
	names, err := persistentFiles(dir)
	if err != nil {
		return b, fmt.Errorf("back up %s: %w", dir, err)
	}
	for _, name := range names {
		from, copied := filepath.Join(dir, name), filepath.Join(target, name)
		err := os.MkdirAll(filepath.Dir(copied), 0o700)
		if err == nil && filepath.Ext(name) == ".db" {
			err = copySQLite(ctx, from, copied)
		} else if err == nil {
			err = copyFile(from, copied)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process removed the file after it was listed
		}
		if err != nil {
			return b, fmt.Errorf("back up %s: %w", name, err)
		}
		f, err := measure(target, name)
		if err != nil {
			return b, fmt.Errorf("back up %s: %w", name, err)
		}
		b.Files = append(b.Files, f)
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err == nil {
		err = WriteNote(filepath.Join(target, manifestName), append(text, '\n'))
	}
	if err != nil {
		return b, fmt.Errorf("back up %s: %w", dir, err)
	}
	return b, syncFolder(filepath.Dir(target))
}

// CheckBackup reads a backup and compares each file with the manifest. If they differ, it returns [ErrDamaged],
// wrapped.
func CheckBackup(backupDir string) (Backup, error) {
	var b Backup
	if !isDir(backupDir) {
		return b, fmt.Errorf("%s is not a folder, or does not exist", backupDir)
	}
	text, err := ReadNote(filepath.Join(backupDir, manifestName))
	switch {
	case err != nil:
		return b, err
	case text == nil:
		return b, fmt.Errorf("%w: no %s; it is incomplete or not a backup", ErrDamaged, manifestName)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return b, fmt.Errorf("%w: read %s: %w", ErrDamaged, manifestName, err)
	}
	for _, f := range b.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			return b, fmt.Errorf("%w: its manifest names %q, which is not a file of the backup", ErrDamaged, f.Name)
		}
		now, err := measure(backupDir, filepath.FromSlash(f.Name))
		if err != nil {
			return b, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if now != f {
			return b, fmt.Errorf("%w: %s has changed since it was written", ErrDamaged, f.Name)
		}
	}
	return b, nil
}

// RestoreBackup checks the backup in backupDir, and creates the state folder dir from it. The folder dir must be empty
// or missing. If RestoreBackup fails, it leaves no part of the folder.
func RestoreBackup(backupDir, dir string) (Backup, error) {
	b, err := CheckBackup(backupDir)
	if err != nil {
		return b, fmt.Errorf("restore %s: %w", backupDir, err)
	}
	if err := requireEmpty(dir); err != nil {
		return b, fmt.Errorf("restore to %s: %w", dir, err)
	}
	fresh := strings.TrimRight(dir, `/\`) + ".restoring" // a killed process may have left this folder
	if err := os.RemoveAll(fresh); err != nil {
		return b, fmt.Errorf("restore to %s: %w", dir, err)
	}
	for _, f := range b.Files {
		name := filepath.FromSlash(f.Name)
		err := os.MkdirAll(filepath.Dir(filepath.Join(fresh, name)), 0o700)
		if err == nil {
			err = copyFile(filepath.Join(backupDir, name), filepath.Join(fresh, name))
		}
		if err != nil {
			return b, fmt.Errorf("restore %s: %w", f.Name, err)
		}
	}
	err = os.MkdirAll(fresh, 0o700)
	if err == nil {
		err = os.Remove(dir)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(fresh, dir)
	}
	if err != nil {
		return b, fmt.Errorf("restore to %s: %w", dir, err)
	}
	return b, syncFolder(filepath.Dir(dir))
}

func requireEmpty(dir string) error {
	in, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && len(in) > 0:
		return ErrOccupied
	}
	return err
}

func persistentFiles(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == budgetFolder && filepath.Dir(path) == filepath.Clean(dir):
			return filepath.SkipDir
		case !e.Type().IsRegular() || transientFile(e.Name()):
			return nil
		}
		name, err := filepath.Rel(dir, path)
		names = append(names, name)
		return err
	})
	slices.Sort(names)
	return names, err
}

// transientFile reports whether a backup does not need a file: a lock, a log of a database, or a half-written file.
func transientFile(name string) bool {
	if strings.HasPrefix(name, ".") {
		return true
	}
	for _, ending := range []string{".lock", ".holder", "-wal", "-shm", "-journal", ".new"} {
		if strings.HasSuffix(name, ending) {
			return true
		}
	}
	return false
}

// copySQLite copies a database to a new file. The copy has the content of one moment, even if other processes write
// meanwhile.
func copySQLite(ctx context.Context, from, to string) error {
	if _, err := os.Lstat(from); err != nil {
		return err
	}
	if err := inspectSQLite(from); err != nil {
		return err
	}
	db, err := connect(from, 1, url.Values{})
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return err
	}
	return makeDurable(to)
}

func makeDurable(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Sync(), f.Close(), syncFolder(filepath.Dir(path)))
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), makeDurable(to))
}

func measure(dir, name string) (BackedUpFile, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return BackedUpFile{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return BackedUpFile{Name: filepath.ToSlash(name), Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
