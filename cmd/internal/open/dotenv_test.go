package open

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseDotenv(t *testing.T) {
	got, err := parseDotenv("# keys\r\n\nA=1\nexport B = two words # why\nC='$x \"#'\nD=\"a\\nb\\\"c\\\\\" # d\nE=\nF=a#b\nG=${A}\nH='it'\\''s'\\''' # h\n")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"A": "1", "B": "two words", "C": `$x "#`, "D": "a\nb\"c\\", "E": "", "F": "a#b", "G": "${A}", "H": "it's'"}, got)
	for text, want := range map[string]string{"A": "line 1: want NAME=VALUE", "A=1\nB='x": "line 2: a quote", `A="x"y`: "text after", `A='x'y`: "text after", `A='x'\''y`: "a quote", "A B=1": "want NAME=VALUE"} {
		_, err := parseDotenv(text)
		require.ErrorContains(t, err, want, text)
	}
}

// TestDotenv checks that the environment takes precedence, that a changed file is read again, and that a file that
// other users can read is rejected.
func TestDotenv(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ".env")
	d := newDotenv(filepath.Join(dir, "pipelines.yaml"))
	_, ok := d.lookup("PENSTOCK_TEST_A")
	require.False(t, ok)
	err, _ := d.trouble()
	require.NoError(t, err, "a missing file is not a fault")
	require.NoError(t, os.WriteFile(path, []byte("PENSTOCK_TEST_A=file\nPENSTOCK_TEST_B=file\n"), 0o600))
	t.Setenv("PENSTOCK_TEST_B", "environment")
	for name, want := range map[string]string{"PENSTOCK_TEST_A": "file", "PENSTOCK_TEST_B": "environment"} {
		v, ok := d.lookup(name)
		require.True(t, ok)
		require.Equal(t, want, v)
	}
	require.NoError(t, os.WriteFile(path, []byte("PENSTOCK_TEST_A=rotated\n"), 0o600))
	v, _ := d.lookup("PENSTOCK_TEST_A")
	require.Equal(t, "rotated", v)
	require.NoError(t, os.Chmod(path, 0o640))
	_, ok = d.lookup("PENSTOCK_TEST_A")
	require.False(t, ok)
	err, missed := d.trouble()
	require.ErrorContains(t, err, "other users can read it (mode 0640); run chmod 600 on it")
	require.True(t, missed)
	require.NoError(t, os.Chmod(path, 0o644))
	_, ok = d.lookup("PENSTOCK_TEST_C")
	require.False(t, ok)
	_, missed = d.trouble()
	require.False(t, missed, "no variable of the file was looked up")
}

// If the file is not used, trouble() still finds out whether the file assigns the wanted variable. A variable whose
// name only ends with the same letters does not count.
func TestDotenvHides(t *testing.T) {
	for line, hides := range map[string]bool{
		"PENSTOCK_TEST_KEY=1":                    true,
		"export PENSTOCK_TEST_KEY = 1":           true,
		"  PENSTOCK_TEST_KEY='1":                 true,
		"A=1\r\nPENSTOCK_TEST_KEY=\r\n":          true,
		"API_PENSTOCK_TEST_KEY=1":                false,
		"# PENSTOCK_TEST_KEY=1":                  false,
		"A='PENSTOCK_TEST_KEY=1'":                false,
		"PENSTOCK_TEST_KEYS=PENSTOCK_TEST_KEY=1": false,
		"PENSTOCK_TEST_KEY":                      false,
	} {
		dir := t.TempDir()
		d := newDotenv(filepath.Join(dir, "pipelines.yaml"))
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".env"), []byte(line+"\nnot an assignment\n"), 0o600))
		_, ok := d.lookup("PENSTOCK_TEST_KEY")
		require.False(t, ok)
		err, missed := d.trouble()
		require.Error(t, err)
		require.Equal(t, hides, missed, "%q", line)
	}
}
