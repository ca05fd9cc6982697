package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSecurityPolicy: each test that SECURITY.md names is there, and so are each target of
// make and each file that it links to.
func TestSecurityPolicy(t *testing.T) {
	root := filepath.Join("..", "..")
	policy, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	require.NoError(t, err)
	var tests bytes.Buffer
	require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	}))
	named := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(policy, -1)
	require.Greater(t, len(named), 20)
	for _, m := range named {
		require.True(t, strings.Contains(tests.String(), "func "+string(m[1])+"("), "SECURITY.md names the test %s", m[1])
	}
	rules, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	for _, m := range regexp.MustCompile("`make (\\w+)`").FindAllSubmatch(policy, -1) {
		require.True(t, strings.Contains(string(rules), "\n"+string(m[1])+": "), "SECURITY.md names the target %s", m[1])
	}
	for _, m := range regexp.MustCompile(`\]\(([\w/.]+)\)`).FindAllSubmatch(policy, -1) {
		require.FileExists(t, filepath.Join(root, string(m[1])))
	}
}
