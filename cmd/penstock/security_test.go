package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSecurityPolicy checks that each test and each make target that SECURITY.md names exists. TestLinksLeadSomewhere
// checks the links of that page.
func TestSecurityPolicy(t *testing.T) {
	t.Parallel()
	policy := pages(t)["SECURITY.md"]
	tests := map[string]bool{}
	eachGoFile(t, func(_, text string) {
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(text, -1) {
			tests[m[1]] = true
		}
	})
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(policy, -1)
	require.Greater(t, len(named), 20)
	for _, m := range named {
		require.True(t, tests[m[1]], "SECURITY.md names the test %s, which does not exist", m[1])
	}
	rules, err := os.ReadFile(filepath.Join(moduleRoot, "Makefile"))
	require.NoError(t, err)
	for _, m := range regexp.MustCompile("`make (\\w+)`").FindAllStringSubmatch(policy, -1) {
		require.True(t, strings.Contains(string(rules), "\n"+m[1]+": "), "SECURITY.md names the target %s, which does not exist", m[1])
	}
}
