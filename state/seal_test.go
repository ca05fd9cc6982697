package state

import (
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/require"
)

func newKey(t *testing.T) string {
	t.Helper()
	k, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	return k.String()
}

// First, the file of one entry is replaced by the file of another entry. Then a secret is read for an origin for which
// it was not stored. Both reads must fail.
// Invariant 10
func TestSecretsAreBound(t *testing.T) {
	for name, keys := range map[string]string{"plain": "", "encrypted": newKey(t)} {
		t.Run(name, func(t *testing.T) {
			f := &Folder{Dir: filepath.Join(t.TempDir(), "state"), Keys: keys}
			mine, other := f.Vault().Entry("a").For("https://a.test"), f.Vault().Entry("b").For("https://a.test")
			for _, s := range []*Entry{mine, other} {
				l, err := s.Lock(t.Context(), 0)
				require.NoError(t, err)
				require.NoError(t, s.SetSecret([]byte(`{"secret":"of `+s.Name()+`"}`)))
				require.NoError(t, l.Release())
			}
			text, err := mine.Secret()
			require.NoError(t, err)
			require.Equal(t, `{"secret":"of a"}`, string(text), "control")
			for _, origin := range []string{"", "https://evil.test", "http://a.test", "https://a.test:444"} {
				text, err = f.Vault().Entry("a").For(origin).Secret()
				require.ErrorIs(t, err, ErrBound, origin)
				require.Nil(t, text)
			}
			kept, err := os.ReadFile(mine.Where())
			require.NoError(t, err)
			if keys != "" {
				require.NotContains(t, string(kept), "of a")
			}
			require.NoError(t, os.WriteFile(other.Where(), kept, 0o600))
			text, err = other.Secret()
			require.ErrorIs(t, err, ErrBound)
			require.Nil(t, text)
		})
	}
}

func TestTokenFilesSealed(t *testing.T) {
	dir, first, second := filepath.Join(t.TempDir(), "state"), newKey(t), newKey(t)
	entry := func(keys string) *Entry {
		return (&Folder{Dir: dir, Keys: keys}).Vault().Entry("a").For("https://a.test")
	}
	set := func(keys, text string) {
		l, err := entry(keys).Lock(t.Context(), 0)
		require.NoError(t, err)
		require.NoError(t, entry(keys).SetSecret([]byte(text)))
		require.NoError(t, l.Release())
	}
	set("", "plain")
	text, err := entry(first).Secret()
	require.NoError(t, err)
	require.Equal(t, "plain", string(text), "a file that was written without a key can still be read")
	set(first, "sealed")
	text, err = entry(second + "\n" + first).Secret()
	require.NoError(t, err)
	require.Equal(t, "sealed", string(text), "the old key on the second line still decrypts")
	_, err = entry("").Secret()
	require.ErrorContains(t, err, "is encrypted, and the state has no key")
	_, err = entry(second).Secret()
	require.ErrorContains(t, err, "encrypted with another key")
	_, err = entry("no key").Secret()
	require.ErrorContains(t, err, "is not an age identity")
	require.NotContains(t, err.Error(), "no key:")

	require.NoError(t, os.WriteFile(entry("").Where(), []byte(`{"access":"of an older version"}`), 0o600))
	text, err = entry(first).Secret()
	require.NoError(t, err)
	require.JSONEq(t, `{"access":"of an older version"}`, string(text))
}

// The file of the mask key is replaced by the file of another secret. This secret must not be used as the key, and the
// error must say what to do.
func TestMaskKeyOfAnotherPlace(t *testing.T) {
	f := &Folder{Dir: filepath.Join(t.TempDir(), "state"), Keys: newKey(t)}
	entry := f.Vault().Entry("mask-key")
	key, made, err := MaskKeyIn(entry)
	require.NoError(t, err)
	require.True(t, made)
	again, made, err := MaskKeyIn(entry)
	require.NoError(t, err)
	require.False(t, made)
	require.Equal(t, key, again, "control")

	other := f.Vault().Entry("other")
	l, err := other.Lock(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, other.SetSecret([]byte("0123456789abcdef")))
	require.NoError(t, l.Release())
	kept, err := os.ReadFile(other.Where())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(entry.Where(), kept, 0o600))
	key, _, err = MaskKeyIn(entry)
	require.ErrorIs(t, err, ErrBound)
	require.Empty(t, key)
	for _, want := range []string{"the entry mask-key in " + entry.Where(), "set mask_key to the result", "delete the entry"} {
		require.ErrorContains(t, err, want)
	}
}
