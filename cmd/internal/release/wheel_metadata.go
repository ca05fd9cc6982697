package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// project is the table `project` of a pyproject.toml, with its readme.
type project struct {
	Name           string              `toml:"name"`
	Dynamic        []string            `toml:"dynamic"`
	Description    string              `toml:"description"`
	Readme         string              `toml:"readme"`
	License        string              `toml:"license"`
	RequiresPython string              `toml:"requires-python"`
	Keywords       []string            `toml:"keywords"`
	Classifiers    []string            `toml:"classifiers"`
	Optional       map[string][]string `toml:"optional-dependencies"`
	URLs           map[string]string   `toml:"urls"`

	readme string
}

// readProject reads the pyproject.toml in a folder. It refuses keys that [project.metadata] would leave out.
func readProject(folder string) (project, error) {
	var all struct {
		Project project        `toml:"project"`
		Tool    map[string]any `toml:"tool"`
	}
	path := filepath.Join(folder, "pyproject.toml")
	text, err := os.ReadFile(path)
	if err != nil {
		return project{}, err
	}
	if err := toml.NewDecoder(strings.NewReader(string(text))).DisallowUnknownFields().Decode(&all); err != nil {
		return project{}, fmt.Errorf("read %s: %w", path, err)
	}
	p := all.Project
	readme, err := os.ReadFile(filepath.Join(folder, p.Readme))
	p.readme = string(readme)
	return p, err
}

// metadata returns the core metadata of a wheel, version 2.4.
func (p project) metadata(version string) string {
	var text strings.Builder
	field := func(name, value string) { fmt.Fprintf(&text, "%s: %s\n", name, value) }
	field("Metadata-Version", "2.4")
	field("Name", p.Name)
	field("Version", version)
	field("Summary", p.Description)
	field("Keywords", strings.Join(p.Keywords, ","))
	for _, label := range slices.Sorted(maps.Keys(p.URLs)) {
		field("Project-URL", label+", "+p.URLs[label])
	}
	field("License-Expression", p.License)
	field("License-File", "LICENSE")
	for _, c := range p.Classifiers {
		field("Classifier", c)
	}
	field("Requires-Python", p.RequiresPython)
	for _, extra := range slices.Sorted(maps.Keys(p.Optional)) {
		field("Provides-Extra", extra)
		for _, need := range p.Optional[extra] {
			field("Requires-Dist", fmt.Sprintf("%s; extra == %q", need, extra))
		}
	}
	field("Description-Content-Type", "text/markdown")
	return text.String() + "\n" + p.readme
}

var preRelease = regexp.MustCompile(`^-(alpha|beta|rc)\.?([0-9]+)$`)

// pythonVersion returns the version of a wheel from the version of a Go module, which has no v: 0.1.0rc1 from 0.1.0-rc.1.
// A version without a tag becomes a development version, which an index of packages refuses.
func pythonVersion(version string) (string, error) {
	if version == "(devel)" {
		return "0.0.0.dev0", nil
	}
	v := "v" + version
	local := strings.TrimPrefix(semver.Build(v), "+")
	v = strings.TrimSuffix(v, semver.Build(v))
	if !semver.IsValid(v) {
		return "", fmt.Errorf("the binary has the version %q, which is not a version of a Go module", version)
	}
	if !module.IsPseudoVersion(v) {
		core, err := pythonRelease(v)
		return withLocal(core, local), err
	}
	at, err := module.PseudoVersionTime(v)
	if err != nil {
		return "", err
	}
	rev, err := module.PseudoVersionRev(v)
	if err != nil {
		return "", err
	}
	core, _, _ := strings.Cut(strings.TrimPrefix(v, "v"), "-")
	return withLocal(core+".dev"+at.Format("20060102150405"), rev, local), nil
}

func pythonRelease(v string) (string, error) {
	pre := semver.Prerelease(v)
	core := strings.TrimPrefix(strings.TrimSuffix(v, pre), "v")
	if pre == "" {
		return core, nil
	}
	m := preRelease.FindStringSubmatch(pre)
	if m == nil {
		return "", fmt.Errorf("Python has no version for %s: name pre-releases -alpha.N, -beta.N or -rc.N", v)
	}
	return core + map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[m[1]] + m[2], nil
}

func withLocal(version string, local ...string) string {
	local = slices.DeleteFunc(local, func(s string) bool { return s == "" })
	if len(local) == 0 {
		return version
	}
	return version + "+" + strings.Join(local, ".")
}
