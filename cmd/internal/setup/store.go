package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
)

// Stored says what [StoreTyped] has done, and what the user must still do.
type Stored struct {
	Path   string   // the file with the secrets; "" if nothing was stored
	Unset  []string // variables that the configuration refers to and that have no value
	Change []string // instructions to change variables that are set to another value than the user has typed
}

// StoreTyped offers to store typed secrets in the file .env, which only its owner can read. It adds them to an existing
// file. It does not store a variable that the file or the environment already sets. // Invariant 5
func StoreTyped(ctx context.Context, config string, p *Prompt, s Setup) (Stored, error) {
	out := Stored{Unset: s.Lacking()}
	path := filepath.Join(filepath.Dir(config), ".env")
	names := s.storable(path, &out)
	if p == nil || len(names) == 0 {
		return out, nil
	}
	agreed, err := p.Yes(ctx, "store the secrets in "+path+", which only you can read?")
	if err != nil {
		return out, err
	}
	if !agreed {
		out.Unset = append(out.Unset, names...)
		return out, nil
	}
	out.Path = path
	return out, s.store(path, names)
}

// storable returns the typed variables that are set neither in the environment nor in the file path. It adds an
// instruction to out.Change for each variable that is set to another value.
func (s Setup) storable(path string, out *Stored) (names []string) {
	used := s.Variables()
	slices.Sort(used)
	for _, name := range slices.Compact(used) {
		typed := s.Typed[name]
		before, _ := s.Env(name)
		switch {
		case typed == "" || typed == before:
		case before == "":
			names = append(names, name)
		case os.Getenv(name) != "":
			out.Change = append(out.Change, fmt.Sprintf("change %s in the environment: it has another value than the one you typed", name))
		default:
			out.Change = append(out.Change, fmt.Sprintf("change %s in %s: it has another value than the one you typed", name, path))
		}
	}
	return names
}

// store adds typed variables to the file path.
func (s Setup) store(path string, names []string) error {
	var text strings.Builder
	switch before, err := readExisting(path); {
	case err != nil:
		return failure.Usage("", "%s: %w", path, err)
	case before == "":
		text.WriteString("# Made by `penstock init`. penstock reads this file.\n")
	case !strings.HasSuffix(before, "\n"):
		text.WriteString("\n")
	}
	for _, name := range names {
		fmt.Fprintf(&text, "%s='%s'\n", name, strings.ReplaceAll(s.Typed[name], "'", `'\''`))
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("store secrets: %w", err)
	}
	_, err = f.WriteString(text.String())
	return errors.Join(err, f.Close())
}

// readExisting returns the content of a file that only its owner can read; "" if there is no file.
func readExisting(path string) (string, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return open.ReadSecret(path)
}
