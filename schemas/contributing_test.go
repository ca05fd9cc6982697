package schemas

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// The entry in "Add a stream" of CONTRIBUTING.md becomes a stream. The error of a wrong entry names the line.
func TestContributeStream(t *testing.T) {
	guide, err := os.ReadFile("../CONTRIBUTING.md")
	require.NoError(t, err)
	_, walk, ok := strings.Cut(string(guide), "## Add a stream\n")
	require.True(t, ok)
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(walk)
	require.NotNil(t, block)

	changed := func(entry string) fs.FS {
		all := fstest.MapFS{}
		names, err := fs.Glob(files, "*.yaml")
		require.NoError(t, err)
		for _, name := range names {
			text, err := fs.ReadFile(files, name)
			require.NoError(t, err)
			if name == "crm.yaml" {
				text = []byte(strings.Replace(string(text), "\nstreams:\n", "\nstreams:\n"+entry, 1))
			}
			all[name] = &fstest.MapFile{Data: text}
		}
		return all
	}
	c, err := load(changed(block[1]))
	require.NoError(t, err)
	s, ok := c.Find("crm.visits")
	require.True(t, ok)
	require.Equal(t, "/api/crm/visits", s.Path)
	_, err = load(changed(strings.Replace(block[1], "class: list", "class: lists", 1)))
	require.ErrorContains(t, err, "crm.yaml:")
}

func TestContributePagingWord(t *testing.T) {
	guide, err := os.ReadFile("../CONTRIBUTING.md")
	require.NoError(t, err)
	m := regexp.MustCompile("`(\\w+)` in the list `(\\w+)` of `roles`").FindStringSubmatch(string(guide))
	require.NotNil(t, m)
	word, role := m[1], Role(m[2])
	before, err := parseVocabulary(vocabulary)
	require.NoError(t, err)
	require.Empty(t, before.Role(word))
	list := "\n  " + m[2] + ": ["
	require.Contains(t, string(vocabulary), list)
	after, err := parseVocabulary([]byte(strings.Replace(string(vocabulary), list, list+word+", ", 1)))
	require.NoError(t, err)
	require.Equal(t, role, after.Role(word))
}
