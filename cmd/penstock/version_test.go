package main

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVersion checks which version, commit and commit date a build reports. The build may come from a clone, from a
// modified clone, or from `go install …@version`.
func TestVersion(t *testing.T) {
	const revision = "cea0cbefc158314b7392e98e49638ff58d4e3c56"
	vcs := []debug.BuildSetting{{Key: "-tags", Value: "duckdb_arrow"}, {Key: "vcs.revision", Value: revision}, {Key: "vcs.time", Value: "2026-11-23T13:51:07Z"}}
	for name, c := range map[string]struct {
		main                  string
		settings              []debug.BuildSetting
		version, commit, date string
	}{
		"clone at a tag":                  {"v0.1.0", vcs, "v0.1.0", revision[:12], "2026-11-23T13:51:07Z"},
		"clone with changes":              {"v0.1.0+dirty", vcs, "v0.1.0+dirty", revision[:12], "2026-11-23T13:51:07Z"},
		"install of a tagged version":     {"v0.1.0", nil, "v0.1.0", "", ""},
		"install of a commit":             {"v0.0.0-20261123135107-cea0cbefc158", nil, "v0.0.0-20261123135107-cea0cbefc158", revision[:12], "2026-11-23T13:51:07Z"},
		"install of a commit after a tag": {"v0.1.1-0.20261123135107-cea0cbefc158", nil, "v0.1.1-0.20261123135107-cea0cbefc158", revision[:12], "2026-11-23T13:51:07Z"},
		"build outside of any clone":      {"(devel)", nil, "(devel)", "", ""},
		"build without information":       {"", nil, "(devel)", "", ""},
	} {
		v := versionOf(&debug.BuildInfo{Main: debug.Module{Version: c.main}, Settings: c.settings})
		require.Equal(t, []string{c.version, c.commit, c.date}, []string{v.Version, v.Commit, v.Date}, name)
	}
}
