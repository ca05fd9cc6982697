package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// engines are the modules whose version decides what a file or a table looks
// like.
var engines = map[string]string{
	"github.com/duckdb/duckdb-go/v2":     "duckdb",
	"github.com/apache/arrow-go/v18":     "arrow",
	"github.com/go-json-experiment/json": "json",
}

// versionInfo is what `version --json` prints.
type versionInfo struct {
	Version string            `json:"version"`
	Commit  string            `json:"commit,omitempty"`
	Go      string            `json:"go"`
	OS      string            `json:"os"`
	Arch    string            `json:"arch"`
	Tags    []string          `json:"tags"`
	Engines map[string]string `json:"engines"`
	Places  []string          `json:"destinations"` // schemes this build can open
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "the version of penstock, of the engines in it, and what this build can open",
		Long: `The version of penstock and what it was built from, the versions of the engines in
it, and the destinations that this build can open.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versionNow()
			if a.json {
				return lineWriter(a.out).Encode(v)
			}
			fmt.Fprintf(a.out, "penstock %s", v.Version)
			if v.Commit != "" {
				fmt.Fprintf(a.out, " (%s)", v.Commit)
			}
			fmt.Fprintf(a.out, "\n%s %s/%s\n", v.Go, v.OS, v.Arch)
			for _, e := range sortedKeys(v.Engines) {
				fmt.Fprintf(a.out, "%s %s\n", e, v.Engines[e])
			}
			fmt.Fprintf(a.out, "tags: %s\n", orNone(v.Tags))
			fmt.Fprintf(a.out, "destinations: %s\n", orNone(v.Places))
			return nil
		},
	}
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// versionNow reads what the linker has written into the binary.
func versionNow() versionInfo {
	v := versionInfo{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Tags: []string{}, Engines: map[string]string{}, Places: []string{}}
	for _, p := range places() {
		if p.missing == "" {
			v.Places = append(v.Places, p.scheme)
		}
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
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
			v.Commit = s.Value[:min(12, len(s.Value))]
		case "CGO_ENABLED":
			if s.Value == "1" {
				v.Tags = append(v.Tags, "cgo")
			}
		}
	}
	return v
}
