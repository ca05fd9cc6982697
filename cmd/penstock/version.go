package main

import (
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	modversion "golang.org/x/mod/module"

	"github.com/penstock-data/penstock/cmd/internal/render"
)

// engines has the modules whose versions determine the format of files and tables, and for each module the name to
// print.
var engines = map[string]string{
	"github.com/duckdb/duckdb-go/v2":     "duckdb",
	"github.com/apache/arrow-go/v18":     "arrow",
	"github.com/go-json-experiment/json": "json",
}

// versionInfo is what `version --json` prints.
type versionInfo struct {
	Version string            `json:"version"`
	Commit  string            `json:"commit,omitempty"`
	Date    string            `json:"date,omitempty"` // date of the commit and not of the build, so that two builds of the same commit are equal
	Go      string            `json:"go"`
	OS      string            `json:"os"`
	Arch    string            `json:"arch"`
	Tags    []string          `json:"tags"`
	Engines map[string]string `json:"engines"`
	Places  []string          `json:"destinations"` // schemes that this build supports
}

func versionCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the versions of penstock and its engines, and what this build supports",
		Long: `Prints the version of penstock and the commit that it was built from, the versions of its
engines, and the destinations that this build supports.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versionNow()
			if a.json {
				return render.NewEncoder(a.out).Encode(v)
			}
			fmt.Fprintf(a.out, "%s\n%s %s/%s\n", v, v.Go, v.OS, v.Arch)
			for _, e := range slices.Sorted(maps.Keys(v.Engines)) {
				fmt.Fprintf(a.out, "%s %s\n", e, v.Engines[e])
			}
			fmt.Fprintf(a.out, "tags: %s\n", orNone(v.Tags))
			fmt.Fprintf(a.out, "destinations: %s\n", orNone(v.Places))
			return nil
		},
	}
}

// String returns the version and the commit on one line.
func (v versionInfo) String() string {
	line := "penstock " + v.Version
	if v.Commit != "" {
		line += fmt.Sprintf(" (%s of %s)", v.Commit, v.Date)
	}
	return line
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// versionNow reads the build information in the binary.
func versionNow() versionInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	v := versionOf(info)
	for _, p := range destinationKinds() {
		if p.Missing == "" {
			v.Places = append(v.Places, p.Scheme)
		}
	}
	return v
}

// commitLength is how many digits of the commit's hash a pseudo-version contains.
const commitLength = 12

// versionOf reads the version, the commit and the date of the commit from the build information. If the program was
// built in a clone of the repository, the information contains the commit. If it was built by `go install …@version`,
// the information contains only the version. A version that is a pseudo-version contains the commit and its date. A
// version that is a tag contains neither.
func versionOf(info *debug.BuildInfo) versionInfo {
	v := versionInfo{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Tags: []string{}, Engines: map[string]string{}, Places: []string{}}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	if modversion.IsPseudoVersion(v.Version) {
		v.Commit, _ = modversion.PseudoVersionRev(v.Version)
		if at, err := modversion.PseudoVersionTime(v.Version); err == nil {
			v.Date = at.Format(time.RFC3339)
		}
	}
	for _, d := range info.Deps {
		if name, ok := engines[d.Path]; ok {
			v.Engines[name] = d.Version
		}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "-tags":
			v.Tags = strings.Split(s.Value, ",")
		case "vcs.revision":
			v.Commit = s.Value[:min(commitLength, len(s.Value))]
		case "vcs.time":
			v.Date = s.Value
		case "CGO_ENABLED":
			if s.Value == "1" {
				v.Tags = append(v.Tags, "cgo")
			}
		}
	}
	return v
}
