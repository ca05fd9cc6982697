package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Vault keeps the credentials that change by themselves, the tokens of sign-ins
// and grants, between runs. They lie in a folder that only its owner can enter,
// one file of mode 0600 each, or in the keyring of the operating system; locks
// and notes are files in either case. // Invariant 5
//
// Every process that uses the same folder shares them. A Vault is safe for
// concurrent use.
type Vault struct {
	dir  string
	ring Ring
	step func(string)
}

// Ring is a place for secrets that is not the vault's own files. Its methods
// are those of a map from names to texts that outlives the process.
type Ring interface {
	// Get returns the text, "" if there is none.
	Get(name string) (string, error)
	// Set keeps the text in the place of any other.
	Set(name, text string) error
}

// NewVault returns the vault of a state folder. Nothing is made or opened
// before it is needed. Secrets go to ring if it is not nil, else into files.
func NewVault(dir string, ring Ring) *Vault {
	return &Vault{dir: dir, ring: ring, step: func(string) {}}
}

// Observe has step called at each step of keeping a secret, so that tests can
// end the process there.
func (v *Vault) Observe(step func(string)) { v.step = step }

// Step tells whoever observes the vault that a step outside of it is done.
func (v *Vault) Step(name string) { v.step(name) }

// folder is where the files are.
func (v *Vault) folder() string { return filepath.Join(v.dir, "tokens") }

// Check returns [ErrExposed], wrapped, if the vault's folders are not safe for
// secrets. Folders that are not there yet are: they will be made so.
func (v *Vault) Check() error {
	if _, err := os.Stat(v.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := inspectFolder(v.dir); err != nil {
		return err
	}
	info, err := os.Lstat(v.folder())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("open state: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is %w: it is no folder; remove it", v.folder(), ErrExposed)
	case shared(info, 0o077):
		return fmt.Errorf("%s is %w: others may enter it (mode %04o); chmod 700 it", v.folder(), ErrExposed, info.Mode().Perm())
	}
	return nil
}

// Slot is the place of one credential in a vault: its secret, a note without
// secrets about what has become of it, and the lock that whoever changes either
// must hold.
type Slot struct {
	vault *Vault
	name  string
}

// Slot returns the place named name: letters, digits, - and _ only.
func (v *Vault) Slot(name string) *Slot { return &Slot{vault: v, name: name} }

// Name returns the name of the slot.
func (s *Slot) Name() string { return s.name }

// Where says in words for people where the secret is kept.
func (s *Slot) Where() string {
	if s.vault.ring != nil {
		return "the keyring"
	}
	return s.path(".json")
}

// Step tells whoever observes the vault that a step outside of it is done.
func (s *Slot) Step(name string) { s.vault.step(name) }

func (s *Slot) path(ending string) string { return filepath.Join(s.vault.folder(), s.name+ending) }

// Lock takes the slot for this process, waiting for another that has it. It
// returns [ErrLocked], wrapped, if that takes longer than wait.
func (s *Slot) Lock(ctx context.Context, wait time.Duration) (*Lock, error) {
	if s.name == "" || strings.ContainsAny(s.name, `/\. `) {
		return nil, fmt.Errorf("lock credential: %q is no name of a slot", s.name)
	}
	if err := s.vault.Check(); err != nil {
		return nil, err
	}
	return Acquire(ctx, s.path(".lock"), wait)
}

// Secret returns what is kept, nil for nothing.
func (s *Slot) Secret() ([]byte, error) {
	if s.vault.ring == nil {
		return s.read(".json")
	}
	text, err := s.vault.ring.Get(s.name)
	if err != nil {
		return nil, fmt.Errorf("read credential: %w", err)
	}
	return []byte(text), nil
}

// SetSecret keeps text in the place of what was kept. It has not changed
// anything, or is durable, when it returns.
func (s *Slot) SetSecret(text []byte) error {
	if s.vault.ring == nil {
		return writePrivate(s.path(".json"), text, s.stepped("secret"))
	}
	if err := s.vault.ring.Set(s.name, string(text)); err != nil {
		return fmt.Errorf("write credential: %w", err)
	}
	s.vault.step("secret durable")
	return nil
}

// Note returns the note, nil for none.
func (s *Slot) Note() ([]byte, error) { return s.read(".note") }

// SetNote replaces the note, in the manner of SetSecret. It must hold no secret.
func (s *Slot) SetNote(text []byte) error {
	return writePrivate(s.path(".note"), text, s.stepped("note"))
}

func (s *Slot) read(ending string) ([]byte, error) {
	if err := s.vault.Check(); err != nil {
		return nil, err
	}
	return readPrivate(s.path(ending))
}

func (s *Slot) stepped(what string) func(string) {
	return func(done string) { s.vault.step(what + " " + done) }
}
