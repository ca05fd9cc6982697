package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The formula has the address and the checksum of each archive of its version, and of no other file.
func TestFormula(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := map[string]string{}
	for _, name := range []string{"penstock_0.1.0_linux_amd64.tar.gz", "penstock_0.1.0_linux_arm64.tar.gz", "penstock_0.1.0_darwin_arm64.tar.gz"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("content of "+name), 0o600))
		sum, err := sumOf(filepath.Join(dir, name))
		require.NoError(t, err)
		want["https://github.com/penstock-data/penstock/releases/download/v0.1.0/"+name] = sum
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "penstock_0.0.9_linux_amd64.tar.gz"), []byte("old"), 0o600))
	require.NoError(t, formula(dir, "0.1.0"))
	path := filepath.Join(dir, "penstock.rb")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	got := map[string]string{}
	for _, m := range regexp.MustCompile(`url "(.+)"\n *sha256 "([0-9a-f]{64})"`).FindAllStringSubmatch(string(text), -1) {
		got[m[1]] = m[2]
	}
	require.Equal(t, want, got)
	require.Contains(t, string(text), "on_macos do\n    on_arm do\n")
	require.Contains(t, string(text), "\n  version \"0.1.0\"\n")

	require.ErrorContains(t, formula(dir, "0.2.0"), "no archive of version")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "penstock_0.3.0_plan9_amd64.tar.gz"), nil, 0o600))
	require.ErrorContains(t, formula(dir, "0.3.0"), "no platform")

	ruby, err := exec.LookPath("ruby")
	if err != nil {
		t.Log("ruby is missing, so the syntax of the formula is not checked")
		return
	}
	out, err := exec.Command(ruby, "-c", path).CombinedOutput()
	require.NoError(t, err, string(out))
}
