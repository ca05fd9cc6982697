package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Folder is the [Store] of one machine: SQLite files, small files and locks in one folder that only its owner can
// enter. The first write creates this folder.
type Folder struct {
	Dir  string
	Ring Ring   // where tokens are stored; nil: in files of the folder
	Keys string // identities of the encryption tool age, one per line; they encrypt the token files; "": no encryption
}

var _ Store = (*Folder)(nil)

// OpenInbox implements [Store]: see [OpenInbox].
func (f *Folder) OpenInbox(ctx context.Context, o InboxOptions) (Inbox, error) {
	b, err := OpenInbox(ctx, f.Dir, o)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// ReadInbox implements [Store]: see [ReadInbox].
func (f *Folder) ReadInbox(ctx context.Context) (Inbox, error) {
	b, err := ReadInbox(ctx, f.Dir)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// OpenJournal implements [Store]: see [OpenJournal].
func (f *Folder) OpenJournal(ctx context.Context) (Journal, error) {
	j, err := OpenJournal(ctx, f.Dir)
	if err != nil {
		return nil, err
	}
	return j, nil
}

// OpenUnits implements [Store]: see [OpenUnits].
func (f *Folder) OpenUnits(ctx context.Context) (UnitStore, error) {
	l, err := OpenUnits(ctx, f.Dir)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// ReadUnits implements [Store]: see [ReadUnits].
func (f *Folder) ReadUnits(ctx context.Context) (UnitStore, error) {
	l, err := ReadUnits(ctx, f.Dir)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// OpenSources implements [Store]: see [OpenSources].
func (f *Folder) OpenSources(ctx context.Context) (Sources, error) {
	s, err := OpenSources(ctx, f.Dir)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ReadJournal implements [Store]: see [ReadJournal].
func (f *Folder) ReadJournal(ctx context.Context) (JournalReader, error) {
	j, err := ReadJournal(ctx, f.Dir)
	if err != nil {
		return nil, err
	}
	return j, nil
}

// ReadSources implements [Store]: see [ReadSources].
func (f *Folder) ReadSources(ctx context.Context) (Sources, error) {
	s, err := ReadSources(ctx, f.Dir)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenHistory implements [Store]: see [OpenHistory].
func (f *Folder) OpenHistory(ctx context.Context) (History, error) {
	h, err := OpenHistory(ctx, f.Dir)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// ReadHistory implements [Store]: see [ReadHistory].
func (f *Folder) ReadHistory(ctx context.Context) (History, error) {
	h, err := ReadHistory(ctx, f.Dir)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Lease implements [Store]: see [Acquire].
func (f *Folder) Lease(ctx context.Context, pipeline, source string, wait time.Duration) (Lease, error) {
	if err := inspectMade(f.Dir); err != nil {
		return nil, err
	}
	l, err := Acquire(ctx, filepath.Join(f.Dir, LeaseName(pipeline, source)+".lock"), wait)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// LeaseName returns the name of the lease of a pipeline, or of one of its sources. Names of pipelines and sources
// contain no @.
func LeaseName(pipeline, source string) string {
	if source == "" {
		return pipeline
	}
	return pipeline + "@" + source
}

// Notes implements [Store].
func (f *Folder) Notes() Notes { return folderNotes{f.Dir} }

// Vault implements [Store].
func (f *Folder) Vault() *Vault { return NewVaultIn(&fileSafe{f.Dir, f.Ring, f.Keys}) }

// Now implements [Store].
func (f *Folder) Now() time.Time { return time.Now() }

// Close implements [Store].
func (f *Folder) Close() error { return nil }

// folderNotes stores notes as files in the state folder. The note "a/b" is the file b in the folder a.
type folderNotes struct{ dir string }

var _ Notes = folderNotes{}

const noteWait = 10 * time.Second

func (n folderNotes) path(name string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", fmt.Errorf("%q is not a valid note name", name)
	}
	return filepath.Join(n.dir, filepath.FromSlash(name)), nil
}

// Note implements [Notes]. If other users can access the file, or if it is not a regular file, Note returns
// [ErrExposed], wrapped. Other users could then forge the note.
func (n folderNotes) Note(_ context.Context, name string) ([]byte, error) {
	path, err := n.path(name)
	if err != nil {
		return nil, fmt.Errorf("read note: %w", err)
	}
	if err := inspectMade(n.dir); err != nil {
		return nil, fmt.Errorf("read note: %w", err)
	}
	if _, err := inspect(path); err != nil {
		return nil, fmt.Errorf("read note: %w", err)
	}
	return ReadNote(path)
}

// SetNote implements [Notes].
func (n folderNotes) SetNote(ctx context.Context, name string, previous, text []byte) (err error) {
	path, err := n.path(name)
	if err != nil {
		return fmt.Errorf("write note: %w", err)
	}
	lock, err := Acquire(ctx, filepath.Join(n.dir, "notes.lock"), noteWait)
	if err != nil {
		return fmt.Errorf("write note: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	now, err := n.Note(ctx, name)
	switch {
	case err != nil:
		return err
	case (now == nil) != (previous == nil) || !bytes.Equal(now, previous):
		return fmt.Errorf("write note %s: %w", name, ErrMoved)
	case text != nil:
		return WriteNote(path, text)
	case previous == nil:
		return nil
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("write note: %w", err)
	}
	return syncFolder(filepath.Dir(path))
}

// NotesIn implements [Notes]. It reports a file that is exposed or not a regular file as [folderNotes.Note] does.
func (n folderNotes) NotesIn(ctx context.Context, folder string) (map[string][]byte, error) {
	root, err := n.path(folder)
	if err != nil {
		return nil, fmt.Errorf("read notes: %w", err)
	}
	all := map[string][]byte{}
	var faults []error
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				faults = append(faults, err)
			}
			return nil // read the other notes
		}
		if e.IsDir() || transientFile(e.Name()) {
			return nil
		}
		name, err := filepath.Rel(n.dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		text, err := n.Note(ctx, name)
		if text != nil { // nil if another process has just removed the note
			all[name] = text
		}
		if err != nil {
			faults = append(faults, err)
		}
		return ctx.Err()
	})
	if err = errors.Join(append(faults, err)...); err != nil {
		return all, fmt.Errorf("read the notes in %s: %w", folder, err)
	}
	return all, nil
}
