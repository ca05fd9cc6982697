package state

import (
	"bytes"
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
// and grants, between runs. Every process that uses the same [Safe] shares them. A
// Vault is safe for concurrent use. // Invariant 5
type Vault struct {
	safe Safe
	step func(string)
}

// Safe is where a vault keeps what it has: in a folder, or in a database.
type Safe interface {
	// Check returns why the place is not safe for secrets; nil if it is.
	Check() error
	// Lock takes the place named name for this process: see [Slot.Lock].
	Lock(ctx context.Context, name string, wait time.Duration) (Lease, error)
	// Read returns what is kept, nil for nothing.
	Read(name string, what Entry) ([]byte, error)
	// Write keeps text in the place of what was kept, and is called by who has the
	// lock; no text removes what was kept. It has not changed anything, or is durable,
	// when it returns; step is told its steps.
	Write(name string, what Entry, text []byte, step func(string)) error
	// Where says in words for people where the secret is kept.
	Where(name string) string
	// Now is the time of day for all that share the place: see [Store].
	Now() time.Time
}

// Entry is one of the two texts of a place.
type Entry string

// The texts of a place.
const (
	EntrySecret Entry = "secret"
	EntryNote   Entry = "note" // what has become of the secret; holds none
)

// Ring is a place for secrets that is not the vault's own files. Its methods
// are those of a map from names to texts that outlives the process.
type Ring interface {
	// Get returns the text, "" if there is none.
	Get(name string) (string, error)
	// Set keeps the text in the place of any other; "" removes it.
	Set(name, text string) error
}

// NewVault returns the vault of a state folder, which only its owner can enter:
// one file of mode 0600 for each text. Nothing is made or opened before it is
// needed. Secrets go to ring if it is not nil; locks and notes are files in either
// case.
func NewVault(dir string, ring Ring) *Vault { return NewVaultIn(&fileSafe{dir: dir, ring: ring}) }

// NewVaultIn returns the vault of another place.
func NewVaultIn(safe Safe) *Vault { return &Vault{safe: safe, step: func(string) {}} }

// Observe has step called at each step of keeping a secret, so that tests can
// end the process there.
func (v *Vault) Observe(step func(string)) { v.step = step }

// Step tells whoever observes the vault that a step outside of it is done.
func (v *Vault) Step(name string) { v.step(name) }

// Check returns [ErrExposed], wrapped, if the place is not safe for secrets.
func (v *Vault) Check() error { return v.safe.Check() }

// Slot is the place of one credential in a vault: its secret, a note without
// secrets about what has become of it, and the lock that whoever changes either
// must hold.
type Slot struct {
	vault  *Vault
	name   string
	origin string // which the secret is sent to; "" for none
}

// For returns the slot for a secret that is sent to this origin, scheme://host, only: one
// that was kept for another is [ErrBound].
func (s *Slot) For(origin string) *Slot { return &Slot{vault: s.vault, name: s.name, origin: origin} }

// Slot returns the place named name: letters, digits, - and _ only.
func (v *Vault) Slot(name string) *Slot { return &Slot{vault: v, name: name} }

// Name returns the name of the slot.
func (s *Slot) Name() string { return s.name }

// Where says in words for people where the secret is kept.
func (s *Slot) Where() string { return s.vault.safe.Where(s.name) }

// Now is the time of day for all that share the slot: see [Store]. Times that are kept
// in it go by that.
func (s *Slot) Now() time.Time { return s.vault.safe.Now() }

// Step tells whoever observes the vault that a step outside of it is done.
func (s *Slot) Step(name string) { s.vault.step(name) }

// Lock takes the slot for this process, waiting for another that has it. It
// returns [ErrLocked], wrapped, if that takes longer than wait.
func (s *Slot) Lock(ctx context.Context, wait time.Duration) (Lease, error) {
	if s.name == "" || strings.ContainsAny(s.name, `/\. `) {
		return nil, fmt.Errorf("lock credential: %q is no name of a slot", s.name)
	}
	if err := s.vault.Check(); err != nil {
		return nil, err
	}
	return s.vault.safe.Lock(ctx, s.name, wait)
}

// Secret returns what is kept, nil for nothing, and [ErrBound], wrapped, for what was kept
// for another slot or origin. A file of a version that kept it without these is taken as
// it is; in a database, which others may write to, it is ErrBound too.
func (s *Slot) Secret() ([]byte, error) {
	kept, err := s.vault.safe.Read(s.name, EntrySecret)
	if len(kept) == 0 || err != nil {
		return kept, err
	}
	text, bound, err := unbind(binding{s.name, s.origin}, kept)
	if _, file := s.vault.safe.(*fileSafe); err == nil && !bound && !file {
		err = ErrBound
	}
	if err != nil {
		return nil, fmt.Errorf("read credential %s: %w", s.name, err)
	}
	return text, nil
}

// SetSecret keeps text in the place of what was kept. It has not changed
// anything, or is durable, when it returns.
func (s *Slot) SetSecret(text []byte) error { return s.write(EntrySecret, text) }

// Remove removes the secret. It has not changed anything, or is durable, when it returns.
func (s *Slot) Remove() error {
	return s.vault.safe.Write(s.name, EntrySecret, nil, func(done string) { s.vault.step("removed " + done) })
}

// Note returns the note, nil for none.
func (s *Slot) Note() ([]byte, error) { return s.vault.safe.Read(s.name, EntryNote) }

// SetNote replaces the note, in the manner of SetSecret. It must hold no secret.
func (s *Slot) SetNote(text []byte) error { return s.write(EntryNote, text) }

func (s *Slot) write(what Entry, text []byte) error {
	if what == EntrySecret {
		var err error
		if text, err = bind(binding{s.name, s.origin}, text); err != nil {
			return fmt.Errorf("write credential: %w", err)
		}
	}
	return s.vault.safe.Write(s.name, what, text, func(done string) { s.vault.step(string(what) + " " + done) })
}

// fileSafe keeps a vault in a state folder.
type fileSafe struct {
	dir  string
	ring Ring
	keys string // age identities that files are encrypted with; "": they are not
}

var _ Safe = (*fileSafe)(nil)

// folder is where the files are.
func (f *fileSafe) folder() string { return filepath.Join(f.dir, "tokens") }

func (f *fileSafe) path(name, ending string) string { return filepath.Join(f.folder(), name+ending) }

// file is that of a text.
func (f *fileSafe) file(name string, what Entry) string {
	if what == EntrySecret {
		return f.path(name, ".json")
	}
	return f.path(name, ".note")
}

// Check implements [Safe]. Folders that are not there yet are safe: they will be
// made so.
func (f *fileSafe) Check() error {
	if f.keys != "" {
		if _, err := Identities(f.keys); err != nil {
			return err
		}
	}
	if err := inspectMade(f.dir); err != nil {
		return err
	}
	info, err := os.Lstat(f.folder())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("open state: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is %w: it is no folder; remove it", f.folder(), ErrExposed)
	case shared(info, 0o077):
		return fmt.Errorf("%s is %w: others may enter it (mode %04o); chmod 700 it", f.folder(), ErrExposed, info.Mode().Perm())
	}
	return nil
}

// Lock implements [Safe].
func (f *fileSafe) Lock(ctx context.Context, name string, wait time.Duration) (Lease, error) {
	l, err := Acquire(ctx, f.path(name, ".lock"), wait)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Read implements [Safe].
func (f *fileSafe) Read(name string, what Entry) ([]byte, error) {
	if what == EntrySecret && f.ring != nil {
		text, err := f.ring.Get(name)
		if err != nil {
			return nil, fmt.Errorf("read credential: %w", err)
		}
		return []byte(text), nil
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	text, err := readPrivate(f.file(name, what))
	if err != nil || what == EntryNote || !bytes.HasPrefix(text, []byte(sealedMark)) {
		return text, err
	}
	if f.keys == "" {
		return nil, fmt.Errorf("read credential: %s is encrypted, and the state has no key: `state: {key: …}` or PENSTOCK_STATE_KEY names it", f.file(name, what))
	}
	if text, err = Unseal(f.keys, text); err != nil {
		return nil, fmt.Errorf("read credential %s: %w", f.file(name, what), err)
	}
	return text, nil
}

// Write implements [Safe].
func (f *fileSafe) Write(name string, what Entry, text []byte, step func(string)) error {
	if len(text) == 0 && (what == EntryNote || f.ring == nil) {
		return removePrivate(f.file(name, what), step)
	}
	if what == EntrySecret && f.ring == nil && f.keys != "" {
		var err error
		if text, err = Seal(f.keys, text); err != nil {
			return fmt.Errorf("write credential: %w", err)
		}
	}
	if what == EntryNote || f.ring == nil {
		return writePrivate(f.file(name, what), text, step)
	}
	if err := f.ring.Set(name, string(text)); err != nil {
		return fmt.Errorf("write credential: %w", err)
	}
	step("durable")
	return nil
}

// Now implements [Safe].
func (f *fileSafe) Now() time.Time { return time.Now() }

// Where implements [Safe].
func (f *fileSafe) Where(name string) string {
	if f.ring != nil {
		return "the keyring"
	}
	return f.file(name, EntrySecret)
}
