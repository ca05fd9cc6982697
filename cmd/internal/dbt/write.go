package dbt

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Done says what [Write] has done.
type Done struct {
	Written, Removed int
	Kept             []string // files that penstock would write, but that the user has made or taken over
}

// Write writes the files of a project into a folder with the function put. It overwrites only files with [Mark] in
// their first line, and removes those that are no longer part of the project.
func Write(folder string, files []File, put func(name string, text []byte) error) (Done, error) {
	var done Done
	current := map[string]bool{}
	for _, f := range files {
		name := filepath.Join(folder, filepath.FromSlash(f.Path))
		current[name] = true
		exists, made, err := inspect(name)
		switch {
		case err != nil:
			return done, err
		case exists && f.Once:
			continue
		case exists && !made:
			done.Kept = append(done.Kept, name)
			continue
		}
		if err := put(name, f.Text); err != nil {
			return done, err
		}
		done.Written++
	}
	err := filepath.WalkDir(filepath.Join(folder, "models", "staging"), func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || current[name] {
			return err
		}
		if _, made, err := inspect(name); err != nil || !made {
			return err
		}
		done.Removed++
		return os.Remove(name)
	})
	if err != nil {
		return done, fmt.Errorf("remove old files of %s: %w", folder, err)
	}
	return done, nil
}

// inspect reports whether a file exists, and whether penstock made it.
func inspect(name string) (exists, made bool, err error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return true, bytes.Contains(line, []byte(Mark)), nil
}
