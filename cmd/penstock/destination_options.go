package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
)

// textOption, countOption and waitOption return functions that parse the value of an option and store it.
func textOption(to *string) func(string) error {
	return func(v string) error { *to = v; return nil }
}

func boolOption(to *bool) func(string) error {
	return func(v string) (err error) {
		if *to, err = strconv.ParseBool(v); err != nil {
			return errors.New("want true or false")
		}
		return nil
	}
}

func countOption(to *int) func(string) error {
	return func(v string) (err error) {
		if *to, err = strconv.Atoi(v); err != nil || *to < 1 {
			return errors.New("want a positive number")
		}
		return nil
	}
}

// waitOption returns a function for an option whose value is a duration. The value 0s is stored as -1, because a stored
// 0 means the default.
func waitOption(to *time.Duration) func(string) error {
	return func(v string) (err error) {
		if *to, err = time.ParseDuration(v); err != nil {
			return errors.New("want a duration such as 30s")
		}
		if *to == 0 {
			*to = -1
		}
		return nil
	}
}

// absentFile returns an error if a destination's file or folder does not exist. A command that only reads calls
// absentFile before it opens the destination. If the path is wrong, opening would create an empty file or folder there,
// and the user would not notice the mistake.
func absentFile(d config.Destination) error {
	path, _ := open.FilePath(d)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		err := fmt.Errorf("%s does not exist", path)
		if _, missing := os.Stat(filepath.Dir(path)); errors.Is(missing, fs.ErrNotExist) {
			// Cause: neither the file of the destination nor its folder exists
			err = failure.Hinted(err, "its folder does not exist either: correct the url of the destination, or create the folder and run `penstock sync`")
		}
		return err
	}
	return nil
}

// checkFile checks that penstock can create and write the file and its write-ahead log. It returns an error if
// everyone may write to the file.
func checkFile(_ context.Context, _ *open.Opener, d config.Destination) error {
	path, _ := open.FilePath(d)
	// Cause: penstock cannot write to the folder of the file
	if err := checkFolder(filepath.Dir(path), "create the folder and let penstock write to it; the write-ahead log is in this folder too"); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && d.Mode == 0 && info.Mode().Perm()&0o002 != 0 {
		return failure.Hinted(fmt.Errorf("everyone may write to %s (mode %04o)", path, info.Mode().Perm()),
			fmt.Sprintf("run chmod o-w on it, or set mode: %04o on the destination if this is intended", info.Mode().Perm()))
	}
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
		return f.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return failure.Hinted(fmt.Errorf("write %s: %w", path, failure.PathCause(err)), "let penstock write to it")
	}
	return nil
}

// checkFolder creates a file in dir and removes it.
func checkFolder(dir, hint string) error {
	f, err := os.CreateTemp(dir, ".penstock-check-*")
	if err != nil {
		return failure.Hinted(fmt.Errorf("write to %s: %w", dir, failure.PathCause(err)), hint)
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	return nil
}

// options parses the part after the ? of a destination's URL. The map readers has a function for each option; the
// function parses the option's value and stores it.
func options(query string, readers map[string]func(string) error) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return failure.Usage("", "invalid options: want ?name=value&name=value")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		read, ok := readers[name]
		if !ok {
			return failure.Usage("options are "+strings.Join(slices.Sorted(maps.Keys(readers)), ", "), "unknown option %q", name)
		}
		if err := read(values.Get(name)); err != nil {
			return failure.Usage("", "%s %q: %w", name, values.Get(name), err)
		}
	}
	return nil
}
