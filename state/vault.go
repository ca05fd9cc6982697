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

// Vault stores secrets that penstock creates or changes: tokens of logins and of OAuth grants, and the mask key. All
// processes that use the same [Safe] share them. A Vault is safe for concurrent use. // Invariant 5
type Vault struct {
	safe Safe
	step func(string)
}

// Safe is the storage of a vault: a folder or a database.
type Safe interface {
	// Check returns an error if the storage is not safe for secrets.
	Check() error
	// Lock locks the entry with this name: see [Entry.Lock].
	Lock(ctx context.Context, name string, wait time.Duration) (Lease, error)
	// Read returns the stored text, or nil if there is none.
	Read(name string, what Part) ([]byte, error)
	// Write replaces the stored text. An empty text removes it. The caller holds the lock. When Write returns nil,
	// the change is durable. Write calls the function step with the name of each step, for tests.
	Write(name string, what Part, text []byte, step func(string)) error
	// Where returns a text for people that says where the secret is stored.
	Where(name string) string
	// Now returns the current time of the clock that all users of the storage share: see [Store].
	Now() time.Time
}

// Part is one of the two texts of an entry.
type Part string

// The texts of an entry.
const (
	PartSecret Part = "secret"
	PartNote   Part = "note" // state of the secret, without secrets
)

// Ring stores named secrets outside the files of the vault, for example in the operating system's keyring. The secrets
// still exist after the process has ended.
type Ring interface {
	// Get returns the text, or "" if there is none.
	Get(name string) (string, error)
	// Set replaces the text; "" removes it.
	Set(name, text string) error
}

// NewVault returns the vault of the state folder dir. Only the owner can enter the folder. Each text is a file of mode
// 0600, which is created when it is needed. If ring is not nil, the secrets are stored in it. Locks and notes are
// always files.
func NewVault(dir string, ring Ring) *Vault { return NewVaultIn(&fileSafe{dir: dir, ring: ring}) }

// NewVaultIn returns a vault with any storage.
func NewVaultIn(safe Safe) *Vault { return &Vault{safe: safe, step: func(string) {}} }

// Observe sets a function that is called at each step of storing a secret. Tests use it to end the process at a step.
func (v *Vault) Observe(step func(string)) { v.step = step }

// Step calls the function set by Observe, for a step outside of the vault.
func (v *Vault) Step(name string) { v.step(name) }

// Check returns [ErrExposed], wrapped, if the storage is not safe for secrets.
func (v *Vault) Check() error { return v.safe.Check() }

// Entry stores one credential in a vault: the secret, and a note about its state. The note contains no secrets. A
// caller that changes the secret or the note must hold the entry's lock.
type Entry struct {
	vault  *Vault
	name   string
	origin string // where the secret may be sent; "" if it is sent nowhere
}

// For returns the entry for a secret that is sent only to origin, in the form scheme://host. If the stored secret
// belongs to another origin, reading it returns [ErrBound].
func (s *Entry) For(origin string) *Entry {
	return &Entry{vault: s.vault, name: s.name, origin: origin}
}

// Entry returns the entry with this name. The name must consist of letters, digits, - and _.
func (v *Vault) Entry(name string) *Entry { return &Entry{vault: v, name: name} }

// Name returns the name of the entry.
func (s *Entry) Name() string { return s.name }

// Where returns a text for people that says where the secret is stored.
func (s *Entry) Where() string { return s.vault.safe.Where(s.name) }

// Now returns the current time of the clock that all users of the entry share: see [Store]. Times in the entry are by
// this clock.
func (s *Entry) Now() time.Time { return s.vault.safe.Now() }

// Step calls the function set by [Vault.Observe], for a step outside of the vault.
func (s *Entry) Step(name string) { s.vault.step(name) }

// Lock locks the entry for this process. If another process holds the lock for longer than the given time, Lock returns
// [ErrLocked], wrapped.
func (s *Entry) Lock(ctx context.Context, wait time.Duration) (Lease, error) {
	if s.name == "" || strings.ContainsAny(s.name, `/\. `) {
		return nil, fmt.Errorf("lock credential: %q is not a valid entry name", s.name)
	}
	if err := s.vault.Check(); err != nil {
		return nil, err
	}
	return s.vault.safe.Lock(ctx, s.name, wait)
}

// Secret returns the stored secret, or nil if there is none. If the secret was stored for another entry or origin, it
// returns [ErrBound], wrapped. Older versions did not record entry and origin. Secret accepts such a secret from a
// file, but not from a database, because other users may be able to write to the database. For such a secret from a
// database, Secret returns ErrBound.
func (s *Entry) Secret() ([]byte, error) {
	kept, err := s.vault.safe.Read(s.name, PartSecret)
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

// SetSecret replaces the secret. When it returns nil, the change is durable.
func (s *Entry) SetSecret(text []byte) error { return s.write(PartSecret, text) }

// Remove removes the secret. When it returns nil, the change is durable.
func (s *Entry) Remove() error {
	return s.vault.safe.Write(s.name, PartSecret, nil, func(done string) { s.vault.step("removed " + done) })
}

// Note returns the note, or nil if there is none.
func (s *Entry) Note() ([]byte, error) { return s.vault.safe.Read(s.name, PartNote) }

// SetNote replaces the note, which must contain no secret. When it returns nil, the change is durable.
func (s *Entry) SetNote(text []byte) error { return s.write(PartNote, text) }

func (s *Entry) write(what Part, text []byte) error {
	if what == PartSecret {
		var err error
		if text, err = bind(binding{s.name, s.origin}, text); err != nil {
			return fmt.Errorf("write credential: %w", err)
		}
	}
	return s.vault.safe.Write(s.name, what, text, func(done string) { s.vault.step(string(what) + " " + done) })
}

type fileSafe struct {
	dir  string
	ring Ring
	keys string // age identities that encrypt the files; "": no encryption
}

var _ Safe = (*fileSafe)(nil)

func (f *fileSafe) folder() string { return filepath.Join(f.dir, "tokens") }

func (f *fileSafe) path(name, ending string) string { return filepath.Join(f.folder(), name+ending) }

func (f *fileSafe) file(name string, what Part) string {
	if what == PartSecret {
		return f.path(name, ".json")
	}
	return f.path(name, ".note")
}

// Check implements [Safe]. It accepts missing folders, because penstock creates them safely.
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
		return fmt.Errorf("%s is %w: it is not a folder; remove it", f.folder(), ErrExposed)
	case accessible(info, 0o077):
		return fmt.Errorf("%s is %w: other users can enter it (mode %04o); run chmod 700 on it", f.folder(), ErrExposed, info.Mode().Perm())
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
func (f *fileSafe) Read(name string, what Part) ([]byte, error) {
	if what == PartSecret && f.ring != nil {
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
	if err != nil || what == PartNote || !bytes.HasPrefix(text, []byte(sealedMark)) {
		return text, err
	}
	if f.keys == "" {
		return nil, fmt.Errorf("read credential: %s is encrypted, and the state has no key: set `state: {key: …}` or PENSTOCK_STATE_KEY", f.file(name, what))
	}
	if text, err = Unseal(f.keys, text); err != nil {
		return nil, fmt.Errorf("read credential %s: %w", f.file(name, what), err)
	}
	return text, nil
}

// Write implements [Safe].
func (f *fileSafe) Write(name string, what Part, text []byte, step func(string)) error {
	if len(text) == 0 && (what == PartNote || f.ring == nil) {
		return removePrivate(f.file(name, what), step)
	}
	if what == PartSecret && f.ring == nil && f.keys != "" {
		var err error
		if text, err = Seal(f.keys, text); err != nil {
			return fmt.Errorf("write credential: %w", err)
		}
	}
	if what == PartNote || f.ring == nil {
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
	return f.file(name, PartSecret)
}
