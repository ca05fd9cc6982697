package state

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"
)

func TestVaultKeeps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := NewVault(dir, nil).Entry("login-1")
	text, err := s.Secret()
	require.NoError(t, err)
	require.Nil(t, text)
	require.NoDirExists(t, dir, "nothing is created before it is needed")

	l, err := s.Lock(t.Context(), 0)
	require.NoError(t, err)
	defer l.Release()
	for _, want := range []string{"first", "second, which is longer", "3"} {
		require.NoError(t, s.SetSecret([]byte(want)))
		require.NoError(t, s.SetNote([]byte("note of "+want)))
		text, err = NewVault(dir, nil).Entry("login-1").Secret()
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
	text, err = s.Note()
	require.NoError(t, err)
	require.Equal(t, "note of 3", string(text))
	require.Equal(t, filepath.Join(dir, "tokens", "login-1.json"), s.Where())

	require.NoError(t, s.Remove())
	require.NoError(t, s.Remove(), "nothing is left to remove")
	require.NoError(t, os.WriteFile(s.Where()+".new", []byte("of a process that was killed as it wrote"), 0o600))
	require.NoError(t, s.Remove())
	require.NoFileExists(t, s.Where()+".new")
	require.NoFileExists(t, s.Where())
	text, err = NewVault(dir, nil).Entry("login-1").Secret()
	require.NoError(t, err)
	require.Nil(t, text)
	text, err = s.Note()
	require.NoError(t, err)
	require.Equal(t, "note of 3", string(text), "removing the secret keeps the note")
	require.NoError(t, s.SetSecret([]byte("4")))
	text, err = s.Secret()
	require.NoError(t, err)
	require.Equal(t, "4", string(text))

	_, err = NewVault(dir, nil).Entry("login-1").Lock(t.Context(), 0)
	require.ErrorIs(t, err, ErrLocked)
	_, err = NewVault(dir, nil).Entry("../login-1").Lock(t.Context(), 0)
	require.ErrorContains(t, err, "is not a valid entry name")
}

// The umask belongs to the whole process, so only a child process changes it.
func TestVaultModes(t *testing.T) {
	if dir := os.Getenv("PENSTOCK_TEST_VAULT"); dir != "" {
		keepSomething(t, dir)
		return
	}
	for _, umask := range []string{"000", "022", "077"} {
		dir := filepath.Join(t.TempDir(), "state")
		child := exec.CommandContext(t.Context(), "sh", "-c", "umask "+umask+" && exec \"$0\" -test.run='^TestVaultModes$'", os.Args[0])
		child.Env = append(os.Environ(), "PENSTOCK_TEST_VAULT="+dir)
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		files := 0
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := d.Info()
			require.NoError(t, err)
			want := fs.FileMode(0o600)
			if d.IsDir() {
				want = 0o700
			} else {
				files++
			}
			require.Equal(t, want, info.Mode().Perm(), "umask %s: %s", umask, path)
			return nil
		}))
		require.Equal(t, 4, files, "there are four files: secret, note, lock, holder")
	}
}

func keepSomething(t *testing.T, dir string) {
	s := NewVault(dir, nil).Entry("x")
	l, err := s.Lock(t.Context(), time.Second)
	require.NoError(t, err)
	require.NoError(t, s.SetSecret([]byte("secret")))
	require.NoError(t, s.SetSecret([]byte("replaced")))
	require.NoError(t, s.SetNote([]byte("note")))
	require.NoError(t, l.Release())
}

func TestVaultExposed(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir, file string){
		"a state folder open to all":     func(t *testing.T, dir, _ string) { require.NoError(t, os.Chmod(dir, 0o777)) },
		"a state folder open to a group": func(t *testing.T, dir, _ string) { require.NoError(t, os.Chmod(dir, 0o770)) },
		"a sticky state folder":          func(t *testing.T, dir, _ string) { require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky)) },
		"a state folder of another user": func(t *testing.T, dir, _ string) {
			if os.Geteuid() != 0 {
				t.Skip("only root can change the owner of a folder")
			}
			require.NoError(t, os.Chown(dir, 65534, -1))
		},
		"a tokens folder open to all": func(t *testing.T, _, file string) { require.NoError(t, os.Chmod(filepath.Dir(file), 0o755)) },
		"a file open to others":       func(t *testing.T, _, file string) { require.NoError(t, os.Chmod(file, 0o640)) },
		"a symbolic link as the file": func(t *testing.T, dir, file string) { link(t, file, filepath.Join(dir, "victim")) },
		"a dangling link as the file": func(t *testing.T, dir, file string) { link(t, file, filepath.Join(dir, "nowhere")) },
		"a folder as the file": func(t *testing.T, _, file string) {
			require.NoError(t, errors.Join(os.Remove(file), os.Mkdir(file, 0o700)))
		},
		"a link as the tokens folder":    func(t *testing.T, dir, file string) { move(t, filepath.Dir(file), filepath.Join(dir, "elsewhere")) },
		"a file as the tokens folder":    func(t *testing.T, _, file string) { cover(t, filepath.Dir(file)) },
		"a link to the note as the file": func(t *testing.T, dir, file string) { link(t, file, strings.TrimSuffix(file, ".json")+".note") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			keepSomething(t, dir)
			victim := filepath.Join(dir, "victim")
			require.NoError(t, os.WriteFile(victim, []byte("mine"), 0o600))
			s := NewVault(dir, nil).Entry("x")
			spoil(t, dir, s.Where())
			text, err := s.Secret()
			require.ErrorIs(t, err, ErrExposed)
			require.Nil(t, text)
			l, err := s.Lock(t.Context(), 0)
			if err == nil {
				err = s.SetSecret([]byte("new"))
				require.NoError(t, l.Release())
			}
			require.ErrorIs(t, err, ErrExposed)
			got, err := os.ReadFile(victim)
			require.NoError(t, err)
			require.Equal(t, "mine", string(got))
		})
	}
}

func link(t *testing.T, file, target string) {
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Symlink(target, file))
}

func move(t *testing.T, folder, to string) {
	require.NoError(t, os.Rename(folder, to))
	require.NoError(t, os.Symlink(to, folder))
}

func cover(t *testing.T, folder string) {
	require.NoError(t, os.RemoveAll(folder))
	require.NoError(t, os.WriteFile(folder, nil, 0o600))
}

func TestVaultInterrupted(t *testing.T) {
	var steps []string
	for n := 0; n == 0 || n <= len(steps); n++ {
		dir := filepath.Join(t.TempDir(), "state")
		keepSomething(t, dir)
		v := NewVault(dir, nil)
		s := v.Entry("x")
		var seen []string
		v.Observe(func(step string) {
			seen = append(seen, step)
			if len(seen) == n {
				panic("stop")
			}
		})
		func() {
			defer func() { _ = recover() }()
			_ = s.SetSecret([]byte("newer"))
		}()
		if n == 0 {
			steps = seen
			require.Equal(t, []string{"secret created", "secret written", "secret synced", "secret renamed", "secret durable"}, steps)
		}
		v.Observe(func(string) {})
		text, err := s.Secret()
		require.NoError(t, err)
		require.Contains(t, []string{"replaced", "newer"}, string(text), "stopped after %v", seen)
		if n == 0 || n > 3 {
			require.Equal(t, "newer", string(text))
		}
		require.NoError(t, s.SetSecret([]byte("again")), "leftovers of a killed process do no harm")
	}
}

func TestVaultInKeyring(t *testing.T) {
	keyring.MockInit()
	dir := filepath.Join(t.TempDir(), "state")
	s := NewVault(dir, Keyring{}).Entry("oauth-main-1")
	require.Equal(t, "the keyring", s.Where())
	text, err := s.Secret()
	require.NoError(t, err)
	require.Empty(t, text)
	l, err := s.Lock(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, s.SetSecret([]byte("hush")))
	require.NoError(t, s.SetNote([]byte("told")))
	require.NoError(t, l.Release())
	text, err = s.Secret()
	require.NoError(t, err)
	require.Equal(t, "hush", string(text))
	require.NoFileExists(t, filepath.Join(dir, "tokens", "oauth-main-1.json"))
	require.FileExists(t, filepath.Join(dir, "tokens", "oauth-main-1.note"))

	keyring.MockInitWithError(errors.New("no session bus"))
	_, err = s.Secret()
	require.EqualError(t, err, "read credential: read the keyring: no session bus")
	require.EqualError(t, s.SetSecret([]byte("x")), "write credential: write to the keyring: no session bus")
}
