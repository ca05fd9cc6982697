package setup

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/open"
)

// TestStoreTyped: a secret that .env sets to another value is not stored, and the user is requested to change it. A secret
// that the configuration does not use is not stored.
func TestStoreTyped(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config, env := filepath.Join(folder, "pipelines.yaml"), filepath.Join(folder, ".env")
	require.NoError(t, os.WriteFile(env, []byte(KeyVariable+"=wrong"), 0o600))
	s := Setup{
		V2URL: "https://a.example", AppURL: "https://b.example", To: []string{"parquet:lake"}, Env: open.Environment(config),
		Typed: map[string]string{KeyVariable: "good", TokenVariable: "token", DatabaseVariable: "postgres://me:secret@db/x"},
	}
	prompt := func(answer string) *Prompt {
		return &Prompt{in: bufio.NewReader(strings.NewReader(answer)), out: io.Discard}
	}
	declined, err := StoreTyped(t.Context(), config, prompt("no\n"), s)
	require.NoError(t, err)
	require.Empty(t, declined.Path)
	require.Equal(t, []string{TokenVariable}, declined.Unset)
	stored, err := StoreTyped(t.Context(), config, prompt("yes\n"), s)
	require.NoError(t, err)
	require.Equal(t, Stored{Path: env, Unset: []string{}, Change: []string{"change " + KeyVariable + " in " + env + ": it has another value than the one you typed"}}, stored)
	text, err := os.ReadFile(env)
	require.NoError(t, err)
	require.Equal(t, KeyVariable+"=wrong\n"+TokenVariable+"='token'\n", string(text))
}

// TestReplacedAnswers: the secret of an answer that the user replaces is forgotten.
func TestReplacedAnswers(t *testing.T) {
	t.Parallel()
	s := Setup{DefaultTo: "parquet:lake", Typed: map[string]string{}, Env: func(string) (string, bool) { return "", false }}
	c := &conversation{Setup: &s, Prompt: &Prompt{in: bufio.NewReader(strings.NewReader("-\nparquet:lake\n")), out: io.Discard}}
	s.Typed[KeyVariable], s.Typed[DatabaseVariable] = "refused", "postgres://me:secret@db/x"
	require.NoError(t, c.versioned(t.Context()))
	require.NoError(t, c.destination(t.Context()))
	require.Empty(t, s.Typed)
	require.Equal(t, []string{"parquet:lake"}, s.To)
}
